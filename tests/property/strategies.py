"""Tensors for properties: any finite values, and vectors with the structure that codecs exploit."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tests.helpers.data import Floats

FLOAT32_MAX = float(np.finfo(np.float32).max)

any_float = st.floats(width=32, allow_nan=False, allow_infinity=False)

# Free choice of every value; hypothesis likes zeros, repeats, subnormals and the largest numbers.
arbitrary = npst.arrays(
    np.float32,
    npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=12),
    elements=any_float,
)


@st.composite
def structured(draw: st.DrawFn, max_size: int = 20_000) -> Floats:
    """Return a vector of a drawn size, distribution, scale, offset and number of outliers."""
    size = draw(st.integers(1, max_size))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["normal", "cubed", "uniform", "few", "zeros", "sorted", "layers"]))
    x = rng.standard_normal(size)
    if kind == "cubed":
        x = x**3
    elif kind == "uniform":
        x = rng.random(size)
    elif kind == "few":
        palette = rng.standard_normal(draw(st.integers(1, 300)))
        x = palette[rng.integers(0, palette.size, size)]
    elif kind == "zeros":
        x[rng.random(size) < draw(st.floats(0, 1))] = 0
    elif kind == "sorted":
        x = np.sort(x)
    elif kind == "layers":
        x *= 10.0 ** rng.integers(-5, 1, size // 500 + 1).repeat(500)[:size]
    count = draw(st.sampled_from([0, 0, 1, 5]))
    x[rng.integers(0, size, count)] = 10.0 ** draw(st.integers(0, 30))
    x = x * 10.0 ** draw(st.integers(-44, 37)) + draw(st.sampled_from([0.0, 0.0, 1.0, -1e6]))
    return np.clip(x, -FLOAT32_MAX, FLOAT32_MAX).astype(np.float32)


tensors = st.one_of(arbitrary, structured())

# Budgets in bits a coordinate.
budgets = st.one_of(
    st.floats(0.05, 16, allow_nan=False), st.sampled_from([0.05, 0.5, 1, 1.5, 2, 3, 4, 8, 12, 16])
)
