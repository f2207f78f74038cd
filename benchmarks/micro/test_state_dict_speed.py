"""Target: a state dict costs at most 1.15 times the codec on its flat vector."""

from __future__ import annotations

import pytest

from benchmarks.state_dict import BITS, flat, resnet18
from benchmarks.targets import assert_ratio
from benchmarks.timing import available_cpus
from docofl_codec import ecuq, encode_state_dict

MOST = 1.15
REPEATS = 15


@pytest.mark.bench
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bits", BITS)
def test_encoding_a_state_dict(bits: float, threads: int) -> None:
    """Two threads too: what runs on one alone must be little."""
    if threads > available_cpus():
        pytest.skip("one processor")
    model = resnet18()
    vector = flat(model)
    assert_ratio(
        f"state dict at {bits} bits, {threads} threads",
        lambda: encode_state_dict(model, bits=bits, threads=threads),
        lambda: ecuq.encode(vector, bits=bits, threads=threads),
        1 / MOST,
        REPEATS,
    )
