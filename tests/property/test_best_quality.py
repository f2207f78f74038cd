"""``quality="best"``: the same promises as ever, and less error for the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

from docofl_codec import Ecuq, InvalidInputError, ecuq, inspect
from tests.helpers.data import DATA_SETS, Floats
from tests.property.strategies import budgets, structured
from tests.property.test_byte_budget import largest_frame
from tests.property.test_reference_decoder import check_agreement

MAX_ERROR_STEPS = 8
RUN = 16  # values that are transformed together


def check(x: Floats, bits: float) -> None:
    """The budget holds, core and reference agree, and no value is far from its own."""
    blob = ecuq.encode(x, bits=bits, quality="best")
    assert len(blob) <= largest_frame(x, bits)
    check_agreement(blob)
    info = inspect(blob)
    if info.dependent:
        assert info.step is not None
        x_hat = np.asarray(ecuq.decode(blob)).astype(np.float64)
        allowed = MAX_ERROR_STEPS * info.step + np.abs(x_hat) * 2.0**-23
        if info.transformed:
            allowed = RUN**0.5 * allowed + np.abs(x).max() * 2.0**-20
        assert (np.abs(x - x_hat) <= allowed).all()


@settings(max_examples=30)
@given(x=structured(5000), bits=budgets)
def test_any_tensor(x: Floats, bits: float) -> None:
    check(x, bits)


@pytest.mark.parametrize("bits", [0.1, 0.5, 1, 2.3, 4, 6, 8, 16])
def test_every_data_set(data_set: Callable[[int], Floats], bits: float) -> None:
    for size in (1023, 1024, 4097):
        check(data_set(size), bits)


@pytest.mark.parametrize("name", ["normal", "outliers"])
def test_many_blocks(name: str) -> None:
    check(DATA_SETS[name](131_072 + 65_536 + 5), 1.5)


LARGE = (1 << 25) + 4099  # levels of so many values are not kept from pass to pass


@pytest.mark.parametrize(
    ("codec", "smooth"),
    [
        (Ecuq(bits=0.75, quality="best"), False),
        (Ecuq(bits=0.75, quality="best"), True),
        (Ecuq(bits=0.75, coder="rans"), False),
    ],
)
def test_a_tensor_that_is_coded_block_by_block(codec: Ecuq, smooth: bool) -> None:
    """Tables are those of a sample; what it has not seen comes back all the same."""
    values = np.random.default_rng(6).standard_normal(1 << 21, dtype=np.float32)
    if smooth:
        sums = np.cumsum(values)
        values[9:] = (sums[9:] - sums[:-9]) / 3
    x = np.resize(values.astype(np.float16), LARGE)
    rare = np.arange(1234, LARGE, 100_003)
    x[rare] = np.where(rare % 2 == 0, 7, -30_000)
    blob = replace(codec, threads=2).encode(x)
    budget = 0.75 * LARGE / 8
    assert 0.98 * budget <= len(blob) <= budget + 74
    info = inspect(blob)
    assert info.coder == "rans"
    assert info.step is not None
    assert info.transformed == smooth
    assert info.num_outliers is not None
    assert info.num_outliers >= rare.size / 2
    allowed = info.step * (1.01 if not info.dependent else MAX_ERROR_STEPS * (4 if smooth else 1))
    x_hat = ecuq.decode(blob)
    for part in range(0, LARGE, 1 << 22):
        mine = x[part : part + (1 << 22)].astype(np.float32)
        assert np.abs(x_hat[part : part + (1 << 22)] - mine).max() <= allowed + 0.005
    assert replace(codec, threads=1).encode(x) == blob


def squared_error(x: Floats, blob: bytes) -> float:
    return float(np.sum((np.asarray(ecuq.decode(blob)).astype(np.float64) - x) ** 2))


@pytest.mark.parametrize("bits", [1, 1.5, 2, 3, 4])
@pytest.mark.parametrize(("name", "most"), [("normal", 0.78), ("lognormal", 0.9), ("layered", 1)])
def test_less_error_than_fast(name: str, most: float, bits: float) -> None:
    x = DATA_SETS[name](200_000)
    best = ecuq.encode(x, bits=bits, quality="best")
    fast = ecuq.encode(x, bits=bits)
    assert squared_error(x, best) <= most * squared_error(x, fast)


@pytest.mark.parametrize("bits", [5, 6, 7, 8, 12])
@pytest.mark.parametrize("name", ["normal", "lognormal", "layered", "outliers"])
def test_no_more_error_than_fast_at_high_rates(name: str, bits: float) -> None:
    x = DATA_SETS[name](50_000)
    best = ecuq.encode(x, bits=bits, quality="best")
    assert squared_error(x, best) <= 1.01 * squared_error(x, ecuq.encode(x, bits=bits))


@pytest.mark.parametrize("bits", [1.5, 2, 3, 4])
def test_distance_from_shannon(bits: float) -> None:
    """At most 0.7 dB on a normal vector, at its real bytes."""
    x = np.random.default_rng(5).standard_normal(1 << 20).astype(np.float32)
    blob = ecuq.encode(x, bits=bits, quality="best")
    error = squared_error(x, blob) / float(np.sum(x.astype(np.float64) ** 2))
    assert 10 * np.log10(error * 4 ** (8 * len(blob) / x.size)) <= 0.7


@pytest.mark.parametrize("bits", [0.5, 1, 2, 4])
def test_the_budget_is_used_up(bits: float) -> None:
    for name in ("normal", "lognormal", "layered"):
        x = DATA_SETS[name](300_000)
        blob = ecuq.encode(x, bits=bits, quality="best")
        if inspect(blob).dependent:
            assert 8 * len(blob) / x.size >= bits - 0.03, name
        else:  # a plain grid has less error in no more bytes
            fast = ecuq.encode(x, bits=bits)
            assert squared_error(x, blob) <= squared_error(x, fast), name


def smooth(size: int) -> Floats:
    """Return values that resemble their neighbours, as weights along a filter do."""
    noise = np.random.default_rng(8).standard_normal(size + 4)
    return np.convolve(noise, np.full(5, 5**-0.5), "valid").astype(np.float32)


@pytest.mark.parametrize("bits", [0.5, 1, 2, 4])
@pytest.mark.parametrize("size", [4 * 4096, 100_003, 131_072, 131_072 + 19])
def test_neighbours_that_resemble_each_other(size: int, bits: float) -> None:
    x = smooth(size)
    blob = ecuq.encode(x, bits=bits, quality="best")
    assert inspect(blob).transformed
    check(x, bits)
    # Five values share four: shuffled, they would take half a bit more.
    shuffled = np.random.default_rng(9).permutation(x)
    other = ecuq.encode(shuffled, bits=bits, quality="best")
    assert not inspect(other).transformed
    assert squared_error(x, blob) <= (0.65 if bits >= 1 else 0.8) * squared_error(shuffled, other)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16])
def test_a_transform_of_other_dtypes(dtype: npt.DTypeLike) -> None:
    x = smooth(20_000)
    exact = x.astype(dtype)
    blob = ecuq.encode(exact, bits=2, quality="best")
    assert inspect(blob).transformed
    check_agreement(blob)
    restored = np.asarray(ecuq.decode(blob)).astype(np.float64)
    assert np.mean((restored - x) ** 2) < 0.06


def test_spikes_stay_exact() -> None:
    x = smooth(50_000)
    x[[0, 15, 16, 7777, 49_999]] = (1e30, -1e6, 3e4, -50, 2e10)
    blob = ecuq.encode(x, bits=2, quality="best")
    assert inspect(blob).transformed
    restored = np.asarray(ecuq.decode(blob))
    spikes = np.abs(x) > 40
    assert spikes.sum() == 5
    np.testing.assert_array_equal(restored[spikes], x[spikes])
    assert np.mean((restored - x).astype(np.float64) ** 2) < 0.06
    check_agreement(blob)


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e25, 1e33, 5e37])
def test_neighbours_of_any_scale(scale: float) -> None:
    """Beyond 2^100 there is no transform: sums might not be finite."""
    x = smooth(20_000) * np.float32(scale)
    blob = ecuq.encode(x, bits=2, quality="best")
    check_agreement(blob)
    power = np.sum(x.astype(np.float64) ** 2)
    assert squared_error(x, blob) < 0.2 * power


def test_a_step_promises_its_bound_for_values() -> None:
    assert not inspect(ecuq.encode(smooth(50_000), step=0.3, quality="best")).transformed


def test_a_step() -> None:
    x = DATA_SETS["normal"](50_000)
    info = inspect(ecuq.encode(x, step=0.3, quality="best"))
    assert info.dependent
    assert info.step == pytest.approx(0.3)


def test_few_values_stay_exact() -> None:
    x = np.round(DATA_SETS["normal"](5000))
    np.testing.assert_array_equal(ecuq.decode(ecuq.encode(x, bits=4, quality="best")), x)


def test_options_that_do_not_go_together() -> None:
    x = DATA_SETS["normal"](2000)
    with pytest.raises(InvalidInputError, match="entropy"):
        ecuq.encode(x, bits=2, budget="entropy", quality="best")
    with pytest.raises(InvalidInputError, match="quality"):
        ecuq.encode(x, bits=2, quality="worst")  # type: ignore[arg-type]


def test_more_bits_are_less_error_where_steps_shrink_far() -> None:
    """A transformed wave has few large coefficients: levels that a coarse step wanted are few."""
    rng = np.random.default_rng(0)
    size = 1 << 18
    x = (3 * np.sin(np.arange(size) / 37) + 0.2 * rng.standard_normal(size)).astype(np.float32)
    errors = []
    for bits in (0.5, 0.7, 0.9, 1.0, 1.2, 1.5):
        blob = ecuq.encode(x, bits=bits, quality="best")
        assert inspect(blob).transformed
        errors.append(squared_error(x, blob))
    assert errors == sorted(errors, reverse=True)


def test_a_sample_that_misses_what_a_step_wants() -> None:
    """Segments alternate so that those of the sample have other values than the rest."""
    size, segment = 1 << 22, 4096
    place = np.arange(segment)
    sampled = np.where(place % 2 == 0, 1, -1) * np.where(place % 4 < 2, 1.01, 0.99)
    others = np.where(place % 2 == 0, 2.0, 0.0)
    in_sample = np.arange(size // segment) % 16 == 8
    x = np.where(in_sample[:, None], sampled, others).astype(np.float32).ravel()
    x[:segment] += np.random.default_rng(7).normal(0, 0.001, segment).astype(np.float32)
    most = 1.5 * len(ecuq.encode(x, step=0.05))
    assert len(ecuq.encode(x, step=0.05, quality="best")) <= most
    assert len(ecuq.encode(x, step=0.05, coder="rans")) <= most
