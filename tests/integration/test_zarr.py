"""The codecs in arrays of Zarr format 3."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

pytest.importorskip("zarr", minversion="3", reason="zarr 2 has no format 3")

from zarr.codecs import TransposeCodec, ZstdCodec

from docofl_codec import CodecError, InvalidInputError, inspect
from docofl_codec.integrations import numcodecs
from docofl_codec.integrations.zarr import Ecuq, Eden
from tests.helpers.data import normal
from tests.helpers.processes import run_python

pytestmark = pytest.mark.integration

CODECS = [
    Ecuq(bits=6),
    Ecuq(bits=3, budget="entropy"),
    Eden(bits=4),
    Eden(bits=3, scale="mse", entropy_coded=True, seed=5),
]


def create(store: Any, x: Any, codec: Any, **options: Any) -> Any:
    """Return an array that is stored by a codec alone."""
    options = {"chunks": (32, 32), "dtype": x.dtype, "compressors": None, **options}
    array = zarr.create_array(store, shape=x.shape, serializer=codec, **options)
    array[...] = x
    return array


def nmse(x: Any, y: Any) -> float:
    difference = np.asarray(x, np.float64) - np.asarray(y, np.float64)
    return float(np.sum(difference**2) / np.sum(np.asarray(x, np.float64) ** 2))


@pytest.mark.parametrize(("name", "codec"), [("docofl_ecuq", Ecuq), ("docofl_eden", Eden)])
def test_entry_points_name_the_codecs(name: str, codec: type[Any]) -> None:
    (entry,) = entry_points(group="zarr.codecs", name=name)
    assert entry.load() is codec


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_an_array_round_trips(tmp_path: Path, codec: Any, dtype: str) -> None:
    x = normal(100 * 90).reshape(100, 90).astype(dtype)
    create(tmp_path / "a.zarr", x, codec)
    again = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert again.dtype == np.dtype(dtype).newbyteorder("=")  # format 3 knows no byte order
    assert nmse(x, again[:]) < 0.04
    assert again.metadata.codecs == (codec,)  # type: ignore[union-attr]
    metadata = json.loads((tmp_path / "a.zarr" / "zarr.json").read_text())
    assert metadata["codecs"] == [codec.to_dict()]


def test_every_chunk_is_a_frame_that_keeps_its_bound(tmp_path: Path) -> None:
    x = normal(4096).reshape(64, 64)
    array = create(tmp_path, x, Ecuq(bits=6))
    for i, j in np.ndindex(2, 2):
        info = inspect((tmp_path / "c" / str(i) / str(j)).read_bytes())
        assert info.step is not None
        part = (slice(32 * i, 32 * i + 32), slice(32 * j, 32 * j + 32))
        error = np.abs(np.asarray(array[part], np.float64) - x[part])
        assert error.max() <= (1.01 if info.centroids else 0.51) * info.step + 1e-6


def test_readers_need_no_import(tmp_path: Path) -> None:
    create(tmp_path / "a.zarr", normal(1024).reshape(32, 32), Eden(bits=4))
    path = str(tmp_path / "a.zarr")
    code = f"import zarr; print(zarr.open_array({path!r}, mode='r')[:].shape)"
    assert run_python(code).strip() == "(32, 32)"


@pytest.mark.parametrize(
    "options",
    [
        {"shards": (64, 64)},
        {"filters": [TransposeCodec(order=(1, 0))]},
        {"compressors": ZstdCodec()},
    ],
)
def test_beside_other_codecs(options: dict[str, Any]) -> None:
    x = normal(128 * 128).reshape(128, 128)
    store: dict[str, Any] = {}
    create(store, x, Ecuq(bits=6), **options)
    array = zarr.open_array(store, mode="r")
    assert nmse(x, array[:]) < 0.01
    assert nmse(x[5:70, ::3], array[5:70, ::3]) < 0.01


@pytest.mark.parametrize("shape", [(), (0,), (1,), (5, 7)])
def test_small_arrays(shape: tuple[int, ...]) -> None:
    x = np.full(shape, 0.5, dtype=np.float32)
    array = create({}, x, Ecuq(), chunks="auto")
    np.testing.assert_array_equal(array[...], x)


@pytest.mark.parametrize("dtype", ["int32", "bool", "complex64"])
def test_other_dtypes_are_refused(dtype: str) -> None:
    with pytest.raises(TypeError, match=f"dtype: found {dtype}, expected floating-point numbers"):
        create({}, np.zeros((4, 4), dtype=dtype), Ecuq())


def test_nan_and_damage_are_refused(tmp_path: Path) -> None:
    x = normal(1024).reshape(32, 32)
    array = create(tmp_path, x, Ecuq(bits=6))
    with pytest.raises(InvalidInputError):
        array[0, 0] = np.nan
    chunk = tmp_path / "c" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(CodecError):
        array[:]
    chunk.write_bytes(numcodecs.Ecuq().encode(normal(10)))
    with pytest.raises(InvalidInputError, match=r"chunk: found shape \(10,\), expected \(32, 32\)"):
        array[:]


@pytest.mark.parametrize(
    "data",
    [
        {"name": "docofl_ecuq", "configuration": {"bits": 0}},
        {"name": "docofl_ecuq", "configuration": {"colour": 3}},
        {"name": "docofl_ecuq", "configuration": 3},
        {"name": "docofl_eden"},
    ],
)
def test_bad_metadata_are_refused(data: Any) -> None:
    with pytest.raises(InvalidInputError):
        Ecuq.from_dict(data)


def test_options_may_be_left_out() -> None:
    assert Ecuq.from_dict({"name": "docofl_ecuq"}) == Ecuq()


def test_codecs_of_the_other_format_are_refused_by_zarr() -> None:
    with pytest.raises(TypeError, match="Expected an ArrayBytesCodec"):
        create({}, np.zeros((4, 4), np.float32), numcodecs.Ecuq())


def test_zarr_2_is_told_apart() -> None:
    code = """
import types, sys
sys.modules["zarr"] = types.ModuleType("zarr")
sys.modules["zarr"].__version__ = "2.18.3"
try:
    import docofl_codec.integrations.zarr
except ImportError as error:
    print(error)
"""
    assert run_python(code).startswith("zarr: found 2.18.3, expected 3 or newer")
