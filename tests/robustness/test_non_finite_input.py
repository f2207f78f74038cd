"""Row 13: NaN and infinities are refused, with their number and the place of the first."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from docofl_codec import Codec, Ecuq, Eden, Identity, InvalidInputError
from docofl_codec.baselines import (
    ECQ,
    QSGD,
    CountSketch,
    ECKMeans,
    HadamardSQ,
    KashinSQ,
    RandK,
    TopK,
)
from tests.helpers.data import normal

CODECS: list[Codec] = [
    Ecuq(bits=2),
    Ecuq(bits=2, budget="entropy"),
    Ecuq(bits=2, quality="best"),
    Ecuq(bits=2, coder="rans"),
    Eden(bits=0.5),
    Eden(bits=2),
    Eden(bits=2, entropy_coded=True),
    Identity(),
    HadamardSQ(),
    KashinSQ(),
    QSGD(bits=2),
    RandK(fraction=0.1),
    TopK(fraction=0.1),
    CountSketch(bits=2),
    ECQ(bits=2, starts=1),
    ECKMeans(bits=2),
]


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_count_and_first_place(codec: Codec, dtype: npt.DTypeLike, bad: float) -> None:
    x = normal(200_000).astype(dtype)
    x[[70_001, 70_002, 199_999]] = bad
    name = {np.inf: "inf", -np.inf: "-inf"}.get(bad, "nan")
    message = rf"found 3 value\(s\) .* the first is {name} at flat index 70001, expected none"
    with pytest.raises(InvalidInputError, match=message):
        codec.encode(x)


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("place", [0, 1, 15, 4095, 4096, 65_535, 65_536, 131_072, 131_073])
def test_any_place(codec: Codec, place: int, isa: str) -> None:
    assert isa
    x = normal(131_074)
    for bad in (np.float32("nan"), np.float32("-nan"), np.float32("inf")):
        x[place] = bad
        with pytest.raises(InvalidInputError, match=rf"found 1 value.* flat index {place},"):
            codec.encode(x)


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_all_values_bad(codec: Codec) -> None:
    with pytest.raises(InvalidInputError, match=r"found 6 value.* nan at flat index 0,"):
        codec.encode(np.full((2, 3), np.nan, np.float32))


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_every_pattern_of_nan(codec: Codec) -> None:
    """Quiet and signalling, of both signs, with any payload."""
    for pattern in (0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC00000, 0xFFFFFFFF):
        x = np.array([1, pattern, 2], np.uint32)
        x[[0, 2]] = np.array([1.0, 2.0], np.float32).view(np.uint32)
        with pytest.raises(InvalidInputError, match="flat index 1,"):
            codec.encode(x.view(np.float32))


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_index_is_that_of_the_flat_tensor(codec: Codec) -> None:
    x = np.zeros((3, 4), np.float32)
    x[2, 1] = np.inf
    with pytest.raises(InvalidInputError, match="flat index 9,"):
        codec.encode(x)
    with pytest.raises(InvalidInputError, match="flat index 5,"):
        codec.encode(x.T)
