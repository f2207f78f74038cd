"""The options of `ecuq.encode`: what is accepted, what is refused and how."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from docofl_codec import InvalidInputError, ecuq, inspect
from tests.helpers.data import Floats, normal


@pytest.mark.parametrize("bits", [0.01, 0.5, 1, 1.5, 2, np.float32(3.5), np.int64(4), 32, 32.0])
def test_bits_in_range(tensor: Floats, bits: float) -> None:
    assert ecuq.decode(ecuq.encode(tensor, bits=bits)).shape == tensor.shape


@pytest.mark.parametrize("bits", [0, -1, 0.0099, 32.001, 1e300, float("inf"), float("nan")])
def test_bits_out_of_range(tensor: Floats, bits: float) -> None:
    with pytest.raises(InvalidInputError, match=r"bits: found .*, expected .* 0\.01 to 32"):
        ecuq.encode(tensor, bits=bits)


@pytest.mark.parametrize("bits", ["2", None, [2], 1j])
def test_bits_of_a_wrong_type(tensor: Floats, bits: Any) -> None:
    with pytest.raises(TypeError):
        ecuq.encode(tensor, bits=bits)


def test_more_bits_give_more_levels_and_bytes() -> None:
    x = normal(20_000)
    frames = [ecuq.encode(x, bits=bits) for bits in (1, 2, 4, 8, 16)]
    levels = [inspect(frame).num_levels or 0 for frame in frames]
    assert levels == sorted(set(levels))
    assert [len(frame) for frame in frames] == sorted({len(frame) for frame in frames})


def test_default_is_two_bits(tensor: Floats) -> None:
    assert ecuq.encode(tensor) == ecuq.encode(tensor, bits=2, budget="bytes", tolerance=0.01)


def test_fractional_budgets_differ() -> None:
    x = normal(50_000)
    sizes = {len(ecuq.encode(x, bits=bits)) for bits in (5, 5.25, 5.5, 5.75)}
    assert len(sizes) == 4


@pytest.mark.parametrize("tolerance", [0, 0.01, 0.1, 32])
@pytest.mark.parametrize("budget", ["bytes", "entropy"])
def test_tolerance_in_range(tensor: Floats, tolerance: float, budget: ecuq.Budget) -> None:
    blob = ecuq.encode(tensor, bits=2, tolerance=tolerance, budget=budget)
    assert ecuq.decode(blob).shape == tensor.shape


@pytest.mark.parametrize("tolerance", [-1e-9, 32.5, float("nan"), float("inf")])
def test_tolerance_out_of_range(tensor: Floats, tolerance: float) -> None:
    with pytest.raises(InvalidInputError, match=r"tolerance: found .*, expected .* 0 to 32"):
        ecuq.encode(tensor, bits=2, tolerance=tolerance)


@pytest.mark.parametrize("tolerance", ["0.1", None])
def test_tolerance_of_a_wrong_type(tensor: Floats, tolerance: Any) -> None:
    with pytest.raises(TypeError):
        ecuq.encode(tensor, bits=2, tolerance=tolerance)


def test_smaller_tolerance_uses_more_of_an_entropy_budget() -> None:
    x = normal(50_000)
    entropies = [
        inspect(ecuq.encode(x, bits=8, budget="entropy", tolerance=tolerance)).entropy or 0
        for tolerance in (1, 0.1, 0.01)
    ]
    assert entropies == sorted(set(entropies))
    assert 8 - 0.01 - 1e-6 <= entropies[-1] <= 8 + 1e-6


@pytest.mark.parametrize("budget", ["Bytes", "", None, 2, b"bytes"])
def test_unknown_budget(tensor: Floats, budget: Any) -> None:
    with pytest.raises(InvalidInputError, match=r'budget: found .*, expected "bytes" or "entropy"'):
        ecuq.encode(tensor, bits=2, budget=budget)


@pytest.mark.parametrize("threads", [None, 1, 2, 1024, np.int32(3)])
def test_threads_in_range(tensor: Floats, threads: int | None) -> None:
    blob = ecuq.encode(tensor, bits=2, threads=threads)
    assert blob == ecuq.encode(tensor, bits=2)
    assert np.array_equal(ecuq.decode(blob, threads=threads), ecuq.decode(blob))


@pytest.mark.parametrize("threads", [0, -1, 1025, 2**70])
def test_threads_out_of_range(tensor: Floats, blob: bytes, threads: int) -> None:
    with pytest.raises(InvalidInputError, match=r"threads: found .*, expected 1 to 1024"):
        ecuq.encode(tensor, bits=2, threads=threads)
    with pytest.raises(InvalidInputError, match=r"threads: found .*, expected 1 to 1024"):
        ecuq.decode(blob, threads=threads)


@pytest.mark.parametrize("threads", [1.0, "2", True, [1]])
def test_threads_of_a_wrong_type(tensor: Floats, blob: bytes, threads: Any) -> None:
    with pytest.raises(TypeError, match=r"threads: found .*, expected an integer or None"):
        ecuq.encode(tensor, bits=2, threads=threads)
    with pytest.raises(TypeError, match=r"threads: found .*, expected an integer or None"):
        ecuq.decode(blob, threads=threads)


def test_options_are_keyword_only(tensor: Floats, blob: bytes) -> None:
    with pytest.raises(TypeError):
        ecuq.encode(tensor, 2)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        ecuq.decode(blob, tensor)  # type: ignore[call-arg]


def test_encode_returns_bytes_and_is_repeatable(tensor: Floats) -> None:
    first = ecuq.encode(tensor, bits=3)
    assert type(first) is bytes
    assert first == ecuq.encode(tensor, bits=3)
