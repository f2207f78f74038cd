"""Codes for parts of a tensor: where they are used, and that they pay."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from docofl_codec import decode, ecuq, inspect
from docofl_codec.reference import decode_frame

LAYERS = (1, 0.05, 0.3, 0.05, 1, 0.02, 0.3, 0.1)  # spreads
LAYER_SIZE = 50_000


def layered(dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
    spread = np.repeat(LAYERS, LAYER_SIZE)
    x: npt.NDArray[Any] = np.random.default_rng(2).standard_normal(spread.size) * spread
    return x.astype(dtype)


def num_tables(x: npt.NDArray[Any], **options: Any) -> int:
    return inspect(ecuq.encode(x, **options)).num_tables or 0


def nmse(x: npt.NDArray[Any], **options: Any) -> float:
    error = x - ecuq.decode(ecuq.encode(x, **options))
    return float((error**2).sum() / (x**2).sum())


def test_layers_have_tables_of_their_own() -> None:
    x = layered()
    for bits in (1, 2, 3, 4, 5, 6, 8):
        assert num_tables(x, bits=bits) == 3


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5.5, 8])
def test_less_error_for_the_same_bytes(bits: float) -> None:
    # Mixed up, the same values have one code.
    x = layered()
    mixed = np.random.default_rng(3).permutation(x)
    assert num_tables(mixed, bits=bits) == 1
    assert nmse(x, bits=bits) < 0.7 * nmse(mixed, bits=bits)


def test_where_there_is_one_table() -> None:
    x = layered()
    assert num_tables(x[: 2**18 - 1], bits=2) == 1  # small
    mild = np.random.default_rng(4).standard_normal(x.size).astype(np.float32)
    mild[: x.size // 2] *= 2
    assert num_tables(mild, bits=3) > 1
    assert num_tables(mild, bits=5.5) == 1  # many bits, and little to save
    assert num_tables(x, bits=2, budget="entropy") == 1  # the paper's rule
    assert num_tables(x, step=0.1) == 1
    assert num_tables(np.random.default_rng(0).normal(size=2**20).astype(np.float32), bits=3) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_the_reference_decodes_the_same(dtype: npt.DTypeLike) -> None:
    x = layered(dtype).reshape(8, -1)
    blob = ecuq.encode(x, bits=2.5)
    assert inspect(blob).num_tables == 3
    assert ecuq.encode(x, bits=2.5, threads=1) == blob
    values, info = decode_frame(blob)
    assert info["num_tables"] == 3
    assert np.array_equal(decode(blob), values)
    assert np.array_equal(decode(blob, threads=1), values)
