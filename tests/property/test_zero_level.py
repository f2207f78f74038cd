"""With a step zero is a level exactly, and values of one sign keep it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docofl_codec import decode_state_dict, ecuq, encode_state_dict
from tests.helpers.data import limits

steps = st.floats(1e-6, 1e6)


@given(
    step=steps,
    levels=st.floats(0.3, 1e7),
    size=st.sampled_from([50, 3000, 60_000]),
    below=st.booleans(),
    above=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_step_and_range(
    step: float, levels: float, size: int, below: bool, above: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.uniform(-1 if below else 0, 1 if above or not below else 0, size)) * (levels * step)
    x = x.astype(np.float32)
    x[rng.integers(0, size, size // 3)] = 0
    x_hat = np.asarray(ecuq.decode(ecuq.encode(x, step=step)))
    assert not np.any(x_hat[x == 0])
    if x.min() >= 0:
        assert x_hat.min() >= 0
    if x.max() <= 0:
        assert x_hat.max() <= 0
    assert np.abs(x - x_hat).max() <= 0.51 * step + np.abs(x).max() * 2.0**-22


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
@given(levels=st.floats(1, 40_000), share=st.floats(0.98, 1))
def test_values_up_to_the_ends_of_a_dtype(
    dtype: npt.DTypeLike, levels: float, share: float
) -> None:
    largest = share * float(limits(dtype).max)
    x = (np.linspace(-1, 1, 703) * largest).astype(dtype)
    x_hat = np.asarray(ecuq.decode(ecuq.encode(x, step=2 * largest / levels)))
    assert x_hat.dtype == x.dtype
    assert np.isfinite(x_hat.astype(np.float64)).all()


def test_the_ends_of_a_dtype_that_a_grid_around_zero_would_exceed() -> None:
    """Found by trying many steps."""
    for dtype, largest, step in (
        (ml_dtypes.bfloat16, 3.3762391092936863e38, 1.374786808812368e36),
        (np.float16, 65472, 5.814718983885942),
    ):
        x = (np.linspace(-1, 1, 703) * largest).astype(dtype)
        assert np.isfinite(np.asarray(ecuq.decode(ecuq.encode(x, step=step)), float)).all()


def test_one_hot_rows_of_a_state_dict() -> None:
    rng = np.random.default_rng(0)
    model = {}
    for name in ("a", "b"):
        x = np.zeros((300, 500), np.float32)
        x[np.arange(300), rng.integers(0, 500, 300)] = 1
        model[name] = x
    for bits in (0.2, 0.5, 4):
        restored = decode_state_dict(encode_state_dict(model, bits=bits))
        for name, x in model.items():
            assert not np.any(np.asarray(restored[name])[x == 0])
            assert np.asarray(restored[name]) == pytest.approx(x, abs=0.1)


@pytest.mark.parametrize("bits", [2, 4, 6, 8])
@pytest.mark.parametrize("seed", range(5))
def test_state_dicts(seed: int, bits: float) -> None:
    rng = np.random.default_rng(seed)
    pruned = rng.standard_normal((300, 300)) * (rng.random((300, 300)) < 0.05)
    pruned[0, 0] = 400
    model = {
        "w": rng.standard_normal((300, 300)).astype(np.float32),
        "pruned": pruned.astype(np.float32),
        "exp_avg_sq": rng.lognormal(0, 2, (300, 300)).astype(np.float32),
    }
    restored = decode_state_dict(encode_state_dict(model, bits=bits))
    assert not np.any(np.asarray(restored["pruned"])[pruned == 0])
    assert np.asarray(restored["exp_avg_sq"]).min() >= 0
