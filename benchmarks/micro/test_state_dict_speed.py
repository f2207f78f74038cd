"""Target: a state dict costs at most 1.15 times the codec on its flat vector."""

from __future__ import annotations

import pytest

from benchmarks.state_dict import BITS, flat, resnet18
from benchmarks.targets import assert_ratio
from docofl_codec import ecuq, encode_state_dict

MOST = 1.15
REPEATS = 15


@pytest.mark.bench
@pytest.mark.parametrize("bits", BITS)
def test_encoding_a_state_dict(bits: float) -> None:
    """One thread: beside two, the serial parts of Python weigh more."""
    model = resnet18()
    vector = flat(model)
    assert_ratio(
        f"state dict at {bits} bits",
        lambda: encode_state_dict(model, bits=bits, threads=1),
        lambda: ecuq.encode(vector, bits=bits, threads=1),
        1 / MOST,
        REPEATS,
    )
