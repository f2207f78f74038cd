"""Speed of the baselines: none but ECQ takes more than 3 s for a million coordinates.

``pytest benchmarks/micro -m bench`` checks it, on one thread and in CPU time.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from docofl_codec import Codec, decode, make_codec

SIZE = 1_000_000
MAX_SECONDS = 3.0
SPELLINGS = (
    *(f"{name}:{bits}" for name in ("hadamard-sq", "kashin-sq", "qsgd") for bits in (2, 2.6, 8)),
    *(f"{name}:{bits}" for name in ("countsketch", "eckmeans") for bits in (0.5, 2, 8)),
    *(f"{name}:{part}" for name in ("topk", "randk") for part in (0.001, 0.1, 0.9)),
)


@pytest.mark.bench
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("data", ["normal", "lognormal"])
def test_a_million_coordinates(spelling: str, data: str) -> None:
    """Time encode and decode."""
    x = np.random.default_rng(1).standard_normal(SIZE, dtype=np.float32)
    if data == "lognormal":
        x = np.exp(x)
    codec: Codec = make_codec(spelling)
    begin = time.process_time()
    blob = codec.encode(x, seed=1)
    encoded = time.process_time()
    decode(blob, threads=1)
    assert encoded - begin < MAX_SECONDS
    assert time.process_time() - encoded < MAX_SECONDS
