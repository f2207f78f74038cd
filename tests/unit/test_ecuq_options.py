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


@pytest.mark.parametrize("bits", ["2", [2], 1j])
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


@pytest.mark.parametrize("step", [1e-7, 0.001, 0.1, 0.37, 3, np.float32(0.5), np.int64(2), 1e30])
def test_step_bounds_the_distance_of_levels(step: float) -> None:
    x = normal(70_000)
    blob = ecuq.encode(x, step=step)
    info = inspect(blob)
    assert info.num_levels is not None
    assert info.step is not None
    assert info.step == pytest.approx(step, rel=2e-5)
    # The grid is wider than the values, so that it is known before they are all seen.
    assert info.num_levels <= 16 * (np.abs(x).max() / step + 1) + 129
    error = np.abs(np.asarray(ecuq.decode(blob), dtype=float) - x)
    assert error.max() <= 0.51 * info.step + 1e-6


@pytest.mark.parametrize("step", [0.25, 0.375, 3.0])
def test_levels_are_multiples_of_the_step(step: float) -> None:
    x = normal(70_000)
    x[::2] = 0
    for part in (x, x[:1000], x + np.float32(5.5)):
        blob = ecuq.encode(part, step=step)
        x_hat = np.asarray(ecuq.decode(blob), dtype=float)
        assert np.array_equal(x_hat / step, np.rint(x_hat / step))
        # Positions in the grid of a large tensor, wider than its values, are float32 numbers.
        num_levels = inspect(blob).num_levels or 0
        rounding = 2.0**-24 * num_levels if part.size > 49_152 else 0
        assert np.abs(x_hat - part).max() <= (0.5 + rounding) * step


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1, 1e30, 3.4e38])
def test_step_at_all_scales(scale: float) -> None:
    x = np.array([-0.9, -0.1, 0, 0.3, 1], dtype=np.float32) * np.float32(scale)
    x_hat = np.asarray(ecuq.decode(ecuq.encode(x, step=float(scale) / 7)), dtype=float)
    assert np.all(np.isfinite(x_hat))
    assert np.abs(x_hat - x).max() <= 0.51 * scale / 7 + 1e-45


def test_step_far_from_zero_and_at_the_end_of_float16() -> None:
    x = np.float32(1e6) + np.arange(100, dtype=np.float32) / 16
    assert np.abs(np.asarray(ecuq.decode(ecuq.encode(x, step=0.01))) - x).max() <= 0.06
    half = np.array([-65504, 65504, 0], dtype=np.float16)
    x_hat = np.asarray(ecuq.decode(ecuq.encode(half, step=20_000)), dtype=float)
    assert np.abs(x_hat - half.astype(float)).max() <= 10_200


def test_a_step_needs_no_more_bytes_than_the_budget_that_led_to_it() -> None:
    x = normal(300_000)
    blob = ecuq.encode(x, bits=3)
    assert len(ecuq.encode(x, step=inspect(blob).step)) <= len(blob) * 1.01


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (7, 9)])
def test_step_with_all_shapes_and_dtypes(shape: tuple[int, ...], dtype: str) -> None:
    x = np.asarray(np.random.default_rng(0).normal(size=shape), dtype=dtype)
    x_hat = ecuq.decode(ecuq.encode(x, step=0.25))
    assert x_hat.shape == shape
    assert x_hat.dtype == x.dtype
    assert np.allclose(x_hat, x, rtol=0, atol=0.13)


def test_step_keeps_a_constant_exactly() -> None:
    x = np.full(1000, 0.7, dtype=np.float32)
    assert np.array_equal(ecuq.decode(ecuq.encode(x, step=10)), x)


def test_a_step_that_takes_many_bits() -> None:
    x = normal(100_000)
    blob = ecuq.encode(x, step=2e-8)
    assert 8 * len(blob) > 16 * x.size
    assert np.allclose(ecuq.decode(blob), x, rtol=0, atol=1e-6)


@pytest.mark.parametrize("step", [0, -1.0, float("nan"), float("inf"), -float("inf")])
def test_step_out_of_range(tensor: Floats, step: float) -> None:
    with pytest.raises(InvalidInputError, match=r"step: found .*, expected a positive, finite"):
        ecuq.encode(tensor, step=step)


def test_step_too_fine_for_the_range() -> None:
    x = np.linspace(0, 1e30, 1000, dtype=np.float32)
    with pytest.raises(InvalidInputError, match=r"step: found 1e-05, expected at least 9\.3"):
        ecuq.encode(x, step=1e-5)


@pytest.mark.parametrize("step", ["1", [1], 1j])
def test_step_of_a_wrong_type(tensor: Floats, step: Any) -> None:
    with pytest.raises(TypeError):
        ecuq.encode(tensor, step=step)


@pytest.mark.parametrize("options", [{"bits": 2}, {"budget": "entropy"}])
def test_step_excludes_a_budget(tensor: Floats, options: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"step: found a budget beside it"):
        ecuq.encode(tensor, step=0.1, **options)


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
