"""The core and the reference decode every frame to the same bits."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given

from docofl_codec import Identity, decode, ecuq
from docofl_codec.reference import decode_frame
from tests.helpers.data import DATA_SETS, Floats
from tests.property.strategies import budgets, structured, tensors


def check_agreement(blob: bytes) -> None:
    core = np.asarray(decode(blob, framework="numpy"))
    reference, info = decode_frame(blob)
    if info["dtype"] == "bfloat16":
        core = core.astype(np.float32)
    assert (core.dtype, core.shape) == (reference.dtype, reference.shape)
    assert core.tobytes() == reference.tobytes()


@given(x=tensors, bits=budgets)
def test_byte_budget(x: Floats, bits: float) -> None:
    check_agreement(ecuq.encode(x, bits=bits))


@given(x=structured(5000), bits=budgets)
def test_entropy_budget(x: Floats, bits: float) -> None:
    check_agreement(ecuq.encode(x, bits=bits, budget="entropy"))


@given(x=tensors)
def test_identity(x: Floats) -> None:
    check_agreement(Identity().encode(x))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("bits", [0.5, 2, 4, 11])
def test_other_dtypes(data_set: Callable[[int], Floats], bits: float, dtype: npt.DTypeLike) -> None:
    with np.errstate(over="ignore"):
        x = data_set(1000).astype(dtype)
    x = x[np.isfinite(x.astype(np.float32))]
    check_agreement(ecuq.encode(x, bits=bits))
    check_agreement(Identity().encode(x))


@pytest.mark.parametrize("bits", [1, 2, 4, 9])
@pytest.mark.parametrize("name", ["normal", "outliers", "two_values", "few_values"])
def test_many_blocks(name: str, bits: float) -> None:
    check_agreement(ecuq.encode(DATA_SETS[name](65_536 + 4099), bits=bits))


def test_instruction_sets(isa: str) -> None:
    assert isa
    for name in ("normal", "outliers", "few_values", "denormal", "huge"):
        for bits in (1, 2, 4, 11):
            check_agreement(ecuq.encode(DATA_SETS[name](5000), bits=bits))
