"""Any shape comes back: empty, without dimensions, and around the edges of blocks and streams."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from docofl_codec import Codec, Ecuq, Eden, Identity, InvalidInputError, decode, inspect
from docofl_codec.reference.eden import theory_nmse
from tests.helpers.data import SEED, Floats, layered, normal

SMALL_SHAPES: list[tuple[int, ...]] = [
    (),
    (1,),
    (0,),
    (0, 3),
    (3, 0, 2),
    (1, 1, 1),
    (2, 3, 5),
    (7,),
    (13, 1),
    (1,) * 32,
    (2, 0) * 16,
]
# A block of ECUQ has 65,536 coordinates; one of 4,096 or more has four streams. EDEN rotates blocks
# of 32,768 coordinates, then smaller ones down to 16.
EDGES = [
    *range(1, 18),
    *(edge + d for edge in (4096, 32_768, 65_536, 65_536 + 4096, 131_072) for d in (-1, 0, 1)),
]


def check_round_trip(codec: Codec, x: Floats) -> None:
    blob = codec.encode(x, seed=SEED)
    x_hat = np.asarray(codec.decode(blob))
    assert x_hat.shape == inspect(blob).shape == x.shape
    assert x_hat.dtype == x.dtype
    assert np.array_equal(np.asarray(decode(blob)), x_hat)
    if isinstance(codec, Identity):
        assert x_hat.tobytes() == x.tobytes()
    elif isinstance(codec, Eden):
        check_eden_error(codec, x, x_hat)
    else:
        check_range(x, x_hat, blob)
    if isinstance(codec, Ecuq) and x.size:
        info = inspect(blob)
        assert info.step is not None
        rounding = np.spacing(np.abs(x).max()) / 2  # of the result to its dtype
        steps = 8 if info.dependent else 1.01 if info.centroids else 0.51
        assert np.abs(x_hat - x).max() <= steps * info.step + rounding


def check_range(x: Floats, x_hat: Floats, blob: bytes) -> None:
    """Check that codecs without randomness stay between the extremes, or close."""
    assert np.isfinite(x_hat).all()
    info = inspect(blob)
    if info.codec in ("ecuq", "ecq", "eckmeans", "identity") and x.size:
        beyond = float(info.step or 0) * (2 if info.dependent else 0.51)
        assert float(x_hat.min()) >= float(x.min()) - beyond
        assert float(x_hat.max()) <= float(x.max()) + beyond


def check_eden_error(codec: Eden, x: Floats, x_hat: Floats) -> None:
    """Check a generous bound; how good EDEN really is, tests/statistical/ says."""
    assert np.isfinite(x_hat).all()
    tail = x.size % 16  # at the end, sent as they are
    assert x_hat.ravel()[x.size - tail :].tolist() == x.ravel()[x.size - tail :].tolist()
    if x.size >= 4000:
        x64 = x.astype(np.float64)
        nmse = np.sum((x64 - x_hat) ** 2) / np.sum(x64**2)
        assert nmse <= 1.5 * theory_nmse(codec.bits)


# Row 14: shapes (0, 3), (), (1,) are preserved.
@pytest.mark.parametrize("shape", SMALL_SHAPES, ids=str)
def test_small_shapes(codec: Codec, shape: tuple[int, ...]) -> None:
    check_round_trip(codec, normal(int(np.prod(shape))).reshape(shape))


@pytest.mark.parametrize("size", EDGES)
def test_edges_of_blocks_and_streams(codec: Codec, size: int) -> None:
    check_round_trip(codec, layered(size))


@pytest.mark.parametrize("size", [1, 500, 5000, 70_000])
def test_all_data_sets(codec: Codec, data_set: Callable[[int], Floats], size: int) -> None:
    x = data_set(size)
    blob = codec.encode(x, seed=SEED)
    x_hat = np.asarray(codec.decode(blob))
    check_range(x, x_hat, blob)
    if isinstance(codec, Eden):
        check_eden_error(codec, x, x_hat)


def test_too_many_dimensions(codec: Codec) -> None:
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("this NumPy has at most 32 dimensions")
    with pytest.raises(InvalidInputError, match="found 33 dimensions, expected at most 32"):
        codec.encode(np.zeros((1,) * 33, np.float32))
