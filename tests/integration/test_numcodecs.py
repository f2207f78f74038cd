"""The codecs in numcodecs' registry and in zarr arrays."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import numpy.typing as npt
import pytest
import zarr

from docofl_codec import CodecError, InvalidInputError, UnsupportedFrameError, ecuq, inspect
from docofl_codec.integrations.numcodecs import Ecuq, Eden
from tests.helpers.data import DATA_SETS, normal

pytestmark = pytest.mark.integration

CODECS = [
    Ecuq(bits=6),
    Ecuq(bits=3, budget="entropy"),
    Eden(bits=4),
    Eden(bits=3, scale="mse", entropy_coded=True, seed=5),
]
NMSE = {"docofl_ecuq": 0.03, "docofl_eden": 0.04}  # above all of these options on normal data


def nmse(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> float:
    x, y = np.asarray(x, np.float64).reshape(-1), np.asarray(y, np.float64).reshape(-1)
    return float(np.sum((x - y) ** 2) / np.sum(x**2))


# --- numcodecs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "codec"), [("docofl_ecuq", Ecuq), ("docofl_eden", Eden)])
def test_entry_points_name_the_codecs(name: str, codec: type[Any]) -> None:
    (entry,) = entry_points(group="numcodecs.codecs", name=name)
    assert entry.load() is codec
    assert isinstance(numcodecs.get_codec({"id": name}), codec)


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_config_goes_through_json(codec: Any) -> None:
    config = json.loads(json.dumps(codec.get_config()))
    assert numcodecs.get_codec(config) == codec
    assert repr(numcodecs.get_codec(dict(config))) == repr(codec)


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape", [(4096,), (64, 64), (16, 16, 16)])
def test_arrays_keep_shape_and_dtype(codec: Any, dtype: str, shape: tuple[int, ...]) -> None:
    x = normal(4096).reshape(shape).astype(dtype)
    restored = codec.decode(codec.encode(x))
    assert (restored.shape, restored.dtype) == (x.shape, x.dtype)
    assert nmse(x, restored) < NMSE[codec.codec_id]


@pytest.mark.parametrize("name", DATA_SETS)
def test_ecuq_keeps_its_error_bound(name: str) -> None:
    x = DATA_SETS[name](10_000)
    blob = Ecuq(bits=6).encode(x)
    info = inspect(blob)
    assert info.step is not None
    error = np.abs(np.asarray(Ecuq().decode(blob), np.float64) - x)
    rounding = 2.0**-23 * np.abs(x.astype(np.float64)).max()
    assert error.max() <= (1.01 if info.centroids else 0.51) * info.step + rounding


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (1,), ()])
def test_small_chunks(codec: Any, shape: tuple[int, ...]) -> None:
    x = np.full(shape, 0.5, dtype=np.float32)
    np.testing.assert_array_equal(codec.decode(codec.encode(x)), x)
    out = np.empty_like(x)
    np.testing.assert_array_equal(codec.decode(codec.encode(x), out=out), x)


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_memory_of_fortran_order_is_restored_as_memory(codec: Any) -> None:
    x = np.asfortranarray(normal(600).reshape(20, 30))
    flat = codec.decode(codec.encode(x))
    assert flat.shape == (600,)
    assert nmse(x, flat.reshape(x.shape, order="F")) < NMSE[codec.codec_id]
    out = np.empty((20, 30), dtype=np.float32, order="F")
    assert nmse(x, codec.decode(codec.encode(x), out=out)) < NMSE[codec.codec_id]


def test_logical_order_wins_where_dimensions_are_known() -> None:
    x = normal(600).reshape(20, 30)
    out = np.empty((20, 30), dtype=np.float32, order="F")
    assert nmse(x, Ecuq().decode(Ecuq().encode(x), out=out)) < 1e-3


def test_strided_arrays_are_taken() -> None:
    x = normal(1200).reshape(40, 30)[::2]
    assert nmse(x, Ecuq().decode(Ecuq().encode(x))) < 1e-3


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_equal_chunks_give_equal_bytes(codec: Any) -> None:
    assert codec.encode(normal(1000)) == codec.encode(normal(1000))


def test_eden_without_a_seed_takes_fresh_ones() -> None:
    codec = Eden(seed=None)
    assert codec.encode(normal(1000)) != codec.encode(normal(1000))
    assert numcodecs.get_codec(codec.get_config()) == codec


@pytest.mark.parametrize(
    "buffer", [bytes, bytearray, memoryview, lambda blob: np.frombuffer(blob, np.int8)]
)
def test_frames_come_in_any_buffer(buffer: Any) -> None:
    assert Ecuq().decode(buffer(Ecuq().encode(normal(100)))).shape == (100,)


def test_bytes_with_a_dtype_are_values() -> None:
    x = normal(1000)
    codec = Ecuq(bits=6, dtype="<f4")
    assert codec.encode(x.tobytes()) == codec.encode(x) == Ecuq(bits=6).encode(x)
    with pytest.raises(InvalidInputError, match="chunk: found 3 bytes, expected a multiple of 4"):
        codec.encode(b"abc")


def test_big_endian_arrays_need_to_be_named() -> None:
    x = normal(1000).astype(">f4")
    with pytest.raises(TypeError, match=r'dtype: found >f4, expected .* dtype=">f4"'):
        Ecuq().encode(x)
    codec = Ecuq(bits=6, dtype=">f4")
    restored = codec.decode(codec.encode(x))
    assert restored.dtype.str == ">f4"
    assert nmse(x, restored) < 0.02
    out = np.empty_like(x)
    assert nmse(x, codec.decode(codec.encode(x), out=out)) < 0.02


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "complex64", "U3", "M8[s]"])
def test_other_dtypes_are_refused(codec: Any, dtype: str) -> None:
    with pytest.raises(TypeError, match="dtype: found"):
        codec.encode(np.zeros(10, dtype=dtype))


def test_a_dtype_that_is_not_the_chunks_is_refused() -> None:
    with pytest.raises(TypeError, match="dtype: found <f8, expected <f4 or bytes"):
        Ecuq(dtype="f4").encode(np.zeros(10))


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_nan_is_refused(codec: Any) -> None:
    x = normal(100)
    x[3] = np.nan
    with pytest.raises(InvalidInputError):
        codec.encode(x)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty(99, np.float32), "found 396 bytes, expected 400"),
        (np.empty(101, np.float32), "found 404 bytes, expected 400"),
        (np.empty(50, np.float64), "found dtype <f8, expected <f4 or bytes"),
        (bytes(400), "found read-only memory"),
        (np.empty(200, np.float32)[::2], "found strided memory"),
    ],
)
def test_wrong_outputs_are_refused(out: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"out: {message}"):
        Ecuq().decode(Ecuq().encode(normal(100)), out=out)


def test_output_of_bytes() -> None:
    out = bytearray(400)
    blob = Ecuq().encode(normal(100))
    Ecuq().decode(blob, out=out)
    np.testing.assert_array_equal(np.frombuffer(out, np.float32), Ecuq().decode(blob))


def test_frames_of_the_other_codec_and_damage_are_refused() -> None:
    blob = Eden().encode(normal(100))
    with pytest.raises(UnsupportedFrameError):
        Ecuq().decode(blob)
    with pytest.raises(CodecError):
        Eden().decode(blob[:-1])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ecuq(bits=0),
        lambda: Ecuq(budget="wishes"),
        lambda: Eden(bits=9),
        lambda: Eden(seed=-1),
    ],
)
def test_bad_options_are_refused_when_the_codec_is_made(make: Any) -> None:
    with pytest.raises(InvalidInputError):
        make()


def test_numbers_of_numpy_are_options() -> None:
    codec = Eden(bits=np.float32(3), seed=np.int64(3), entropy_coded=np.bool_(True))  # type: ignore[arg-type]
    config = json.loads(json.dumps(codec.get_config()))
    assert numcodecs.get_codec(config) == Eden(bits=3, seed=3, entropy_coded=True) == codec
    with pytest.raises(TypeError):
        Eden(seed=1.5)  # type: ignore[arg-type]


def test_truth_values_are_no_bytes() -> None:
    with pytest.raises(TypeError, match=r"dtype: found \|b1, expected <f4 or bytes"):
        Ecuq(dtype="f4").encode(np.zeros(400, dtype=bool))


# --- zarr ----------------------------------------------------------------------------------------


with_zarr_3 = pytest.mark.skipif(not hasattr(zarr, "create_array"), reason="zarr 2 has another API")


@with_zarr_3
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("place", ["compressors", "filters"])
@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_a_zarr_array_round_trips(tmp_path: Path, codec: Any, place: str, order: Any) -> None:
    x = normal(100 * 90).reshape(100, 90)
    places: dict[str, Any] = {"compressors": None, "filters": None}
    places[place] = [codec] if place == "filters" else codec
    array = zarr.create_array(
        tmp_path / "a.zarr",
        shape=x.shape,
        chunks=(32, 32),
        dtype="float32",
        zarr_format=2,
        order=order,
        **places,
    )
    array[:] = x
    again = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert nmse(x, np.asarray(again[:])) < NMSE[codec.codec_id]
    assert (again.filters or again.compressors)[0] == codec

    metadata = json.loads((tmp_path / "a.zarr" / ".zarray").read_text())
    stored = metadata["filters"][0] if place == "filters" else metadata["compressor"]
    assert stored == codec.get_config()


@with_zarr_3
def test_every_chunk_of_a_zarr_array_keeps_ecuqs_bound(tmp_path: Path) -> None:
    x = normal(4096).reshape(64, 64)
    array = zarr.create_array(
        tmp_path, shape=x.shape, chunks=(32, 32), dtype="f4", zarr_format=2, compressors=Ecuq(6)
    )
    array[:] = x
    for i, j in np.ndindex(2, 2):
        info = inspect((tmp_path / f"{i}.{j}").read_bytes())
        assert info.step is not None
        assert info.bits_per_coordinate <= 6 + 8 * 84 / 1024
        part = (slice(32 * i, 32 * i + 32), slice(32 * j, 32 * j + 32))
        error = np.abs(np.asarray(array[part], np.float64) - x[part])
        assert error.max() <= (1.01 if info.centroids else 0.51) * info.step + 1e-6


@with_zarr_3
def test_a_big_endian_zarr_array(tmp_path: Path) -> None:
    x = normal(1000)
    array = zarr.create_array(
        tmp_path,
        shape=x.shape,
        chunks=(300,),
        dtype=">f4",
        zarr_format=2,
        compressors=Ecuq(6, dtype=">f4"),
    )
    array[:] = x
    assert nmse(x, np.asarray(zarr.open_array(tmp_path, mode="r")[:])) < 0.02


def test_a_frame_of_another_dtype_is_refused() -> None:
    frame = ecuq.encode(np.full(10, 1e30, np.float32))
    with pytest.raises(InvalidInputError, match="frame: found float32, expected <f2"):
        Ecuq(dtype="<f2").decode(frame)


def test_a_frame_of_torch_is_an_array() -> None:
    torch = pytest.importorskip("torch")
    frame = ecuq.encode(torch.ones(10, dtype=torch.bfloat16), bits=8)
    assert np.array_equal(np.asarray(Ecuq().decode(frame), np.float32), np.ones(10, np.float32))
