"""``coder="rans"`` and ``"auto"``: the same promises as ever, and less error at equal bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from docofl_codec import InvalidInputError, ecuq, inspect
from tests.helpers.data import DATA_SETS, Floats
from tests.property.strategies import budgets, structured
from tests.property.test_byte_budget import largest_frame
from tests.property.test_reference_decoder import check_agreement

CODERS: tuple[ecuq.Coder, ...] = ("rans", "auto")


def decoded(blob: bytes) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray(ecuq.decode(blob)).astype(np.float64)


def squared_error(x: Floats, blob: bytes) -> float:
    return float(np.sum((decoded(blob) - x) ** 2))


def entropy_of(levels: Any) -> float:
    _, counts = np.unique(levels, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def check(x: Floats, bits: float, coder: ecuq.Coder) -> None:
    """The budget holds, core and reference agree, values stay within a step and keep their sign."""
    blob = ecuq.encode(x, bits=bits, coder=coder)
    assert len(blob) <= largest_frame(x, bits)
    check_agreement(blob)
    info = inspect(blob)
    x_hat = decoded(blob)
    if info.step:
        # Float32 tells values apart that are small beside the farthest from zero.
        rounding = 2.0**-22 * float(np.abs(x).max(initial=0))
        most = (1.01 if info.centroids else 0.51) * info.step
        assert (np.abs(x - x_hat) <= most + rounding).all()
    if x.size and x.min() >= 0:
        assert x_hat.min() >= 0


@settings(max_examples=30)
@given(x=structured(5000), bits=budgets)
@pytest.mark.parametrize("coder", CODERS)
def test_any_tensor(x: Floats, bits: float, coder: ecuq.Coder) -> None:
    check(x, bits, coder)


@pytest.mark.parametrize("bits", [0.1, 0.5, 1, 2.3, 4, 6, 8, 16])
@pytest.mark.parametrize("coder", CODERS)
def test_every_data_set(data_set: Callable[[int], Floats], bits: float, coder: ecuq.Coder) -> None:
    for size in (1023, 1024, 4097):
        check(data_set(size), bits, coder)


@pytest.mark.parametrize("name", ["normal", "outliers", "layered"])
def test_many_blocks(name: str) -> None:
    check(DATA_SETS[name](131_072 + 65_536 + 5), 1.5, "rans")


@pytest.mark.parametrize("bits", [0.1, 0.2, 0.5, 1, 1.5, 2, 3, 4])
def test_within_a_hundredth_of_the_entropy(bits: float) -> None:
    """Of the levels that came out; where Huffman codes take up to half a bit more."""
    x = DATA_SETS["normal"](1 << 19)
    blob = ecuq.encode(x, bits=bits, coder="rans")
    assert inspect(blob).coder == "rans"
    assert 8 * len(blob) / x.size <= entropy_of(decoded(blob)) + 0.01


@pytest.mark.parametrize("bits", [0.1, 0.3, 1, 2, 3])
def test_the_budget_is_used_up(bits: float) -> None:
    for name in ("normal", "lognormal"):
        x = DATA_SETS[name](300_000)
        blob = ecuq.encode(x, bits=bits, coder="rans")
        assert inspect(blob).coder == "rans"
        assert 8 * len(blob) / x.size >= bits - 0.03, name


@pytest.mark.parametrize("bits", [0.3, 1, 2, 3, 4, 8])
@pytest.mark.parametrize("name", ["normal", "lognormal", "layered", "outliers"])
def test_auto_is_no_worse_than_either(name: str, bits: float) -> None:
    x = DATA_SETS[name](100_000)
    errors = {
        coder: squared_error(x, ecuq.encode(x, bits=bits, coder=coder))
        for coder in ("huffman", *CODERS)
    }
    # It compares estimates.
    assert errors["auto"] <= 1.02 * min(errors["huffman"], errors["rans"])


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_local_tables(bits: float) -> None:
    """Parts of different spread have code tables of their own."""
    spreads = np.repeat(2.0 ** -(np.arange(50) % 5), 8192)
    x = (DATA_SETS["normal"](spreads.size) * spreads).astype(np.float32)
    blob = ecuq.encode(x, bits=bits, coder="rans")
    assert (inspect(blob).num_tables or 0) > 1
    assert squared_error(x, blob) <= 0.85 * squared_error(x, ecuq.encode(x, bits=bits))


@pytest.mark.parametrize("centroids", [False, True])
@pytest.mark.parametrize("step", [0.01, 0.1, 0.5, 2.0])
def test_a_step(step: float, centroids: bool) -> None:
    """Levels are multiples of the step, or means of the values next to them."""
    x = DATA_SETS["normal"](50_000)
    sizes = {}
    for coder in ("huffman", *CODERS):
        blob = ecuq.encode(x, step=step, coder=coder, centroids=centroids)
        sizes[coder] = len(blob)
        info = inspect(blob)
        assert info.step == pytest.approx(step)
        assert np.abs(decoded(blob) - x).max() <= (1.01 if info.centroids else 0.51) * step
        if not info.centroids:
            places = decoded(blob) / step
            off_grid = np.abs(places - np.rint(places)) > 1e-3
            assert off_grid.sum() <= (info.num_outliers or 0)  # which come back as they were
    assert sizes["auto"] == min(sizes.values())


@pytest.mark.parametrize("bits", [0.5, 2, 4])
def test_zeros_stay_zeros(bits: float) -> None:
    x = DATA_SETS["normal"](20_000)
    x[::3] = 0
    x_hat = decoded(ecuq.encode(x, bits=bits, coder="rans"))
    assert not x_hat[::3].any()


def test_few_values_stay_exact() -> None:
    x = np.round(DATA_SETS["normal"](5000))
    np.testing.assert_array_equal(ecuq.decode(ecuq.encode(x, bits=4, coder="rans")), x)


def test_the_best_quality_has_rans_anyway() -> None:
    x = DATA_SETS["normal"](5000)
    plain = ecuq.encode(x, bits=2, quality="best")
    for coder in CODERS:
        assert ecuq.encode(x, bits=2, quality="best", coder=coder) == plain
    with pytest.raises(InvalidInputError, match='coder: found "huffman" with quality "best"'):
        ecuq.encode(x, quality="best", coder="huffman")


def test_options_that_do_not_go_together() -> None:
    x = DATA_SETS["normal"](2000)
    with pytest.raises(InvalidInputError, match="coder: found 'rans' with the entropy budget"):
        ecuq.encode(x, budget="entropy", coder="rans")
    entropy = ecuq.encode(x, budget="entropy", coder="auto")
    assert entropy == ecuq.encode(x, budget="entropy")
    with pytest.raises(InvalidInputError, match="coder: found 'morse'"):
        ecuq.encode(x, coder="morse")  # type: ignore[arg-type]
