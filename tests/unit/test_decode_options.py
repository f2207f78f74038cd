"""The options of `decode`: out, framework, expected_shape, max_output_bytes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from docofl_codec import (
    Identity,
    InvalidInputError,
    LimitExceededError,
    UnsupportedFrameError,
    decode,
    ecuq,
)
from tests.helpers.data import Floats, normal
from tests.helpers.processes import run_python

# out ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_out_is_filled_and_returned(tensor: Floats, dtype: npt.DTypeLike) -> None:
    blob = ecuq.encode(tensor.astype(dtype), bits=4)
    out = np.full(tensor.shape, 7, dtype)
    assert decode(blob, out=out) is out
    assert out.tobytes() == np.asarray(decode(blob)).tobytes()


@pytest.mark.parametrize("encode", [lambda x: ecuq.encode(x, bits=4), Identity().encode])
def test_float32_takes_bfloat16(tensor: Floats, encode: Any) -> None:
    blob = encode(tensor.astype(ml_dtypes.bfloat16))
    out = np.empty(tensor.shape, np.float32)
    decode(blob, out=out)
    assert np.array_equal(out, np.asarray(decode(blob)).astype(np.float32))


@pytest.mark.parametrize("encode", [lambda x: ecuq.encode(x, bits=3), Identity().encode])
def test_nothing_around_out_is_written(encode: Any) -> None:
    x = normal(5000)
    guarded = np.full(x.size + 64, 7, np.float32)
    decode(encode(x), out=guarded[32:-32])
    assert (guarded[:32] == 7).all()
    assert (guarded[-32:] == 7).all()
    assert not (guarded[32:-32] == 7).any()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty((2, 3, 4), np.float32), "out: found shape"),
        (np.empty(30, np.float32), "out: found shape"),
        (np.empty((2, 3, 5), np.float64), "out: found dtype float64, expected float32"),
        (np.empty((2, 3, 5), np.int32), "out: found dtype int32, expected float32"),
        (np.empty((2, 3, 10), np.float32)[:, :, ::2], "out: expected a writeable, C-contiguous"),
        (np.empty((2, 3, 5), np.float32, order="F"), "out: expected a writeable, C-contiguous"),
        (np.empty((2, 3, 5), ">f4"), "out: expected a writeable, C-contiguous"),
    ],
)
def test_out_that_does_not_fit(blob: bytes, out: npt.NDArray[Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        decode(blob, out=out)


def test_out_must_be_writeable(blob: bytes) -> None:
    out = np.zeros((2, 3, 5), np.float32)
    out.flags.writeable = False
    with pytest.raises(InvalidInputError, match="out: expected a writeable"):
        decode(blob, out=out)
    assert not out.any()


@pytest.mark.parametrize("out", [bytearray(120), [0.0] * 30, 3])
def test_out_of_a_wrong_type(blob: bytes, out: Any) -> None:
    with pytest.raises(TypeError, match=r"out: found .*, expected a NumPy array or torch tensor"):
        decode(blob, out=out)


def test_damage_is_noticed_before_out_is_touched(blob: bytes) -> None:
    out = np.full((2, 3, 5), 7, np.float32)
    damaged = blob[:-6] + bytes([blob[-6] ^ 4]) + blob[-5:]
    with pytest.raises(ValueError, match="checksum"):
        decode(damaged, out=out)
    assert (out == 7).all()


# framework ---------------------------------------------------------------------------------------


def test_framework_numpy(blob: bytes) -> None:
    assert isinstance(decode(blob, framework="numpy"), np.ndarray)


@pytest.mark.parametrize("framework", ["jax", "", 1, b"numpy"])
def test_unknown_framework(blob: bytes, framework: Any) -> None:
    with pytest.raises(
        InvalidInputError, match=r'framework: found .*, expected "numpy" or "torch"'
    ):
        decode(blob, framework=framework)


def test_frames_of_torch_without_torch(reseal: Any, blob: bytes) -> None:
    """Without torch in the process: a NumPy array by default, an error on request."""
    flagged = reseal(blob[:6] + b"\x01" + blob[7:])
    run_python(
        f"""
import sys
import docofl_codec as d
blob = bytes.fromhex("{flagged.hex()}")
assert d.inspect(blob).framework == "torch"
assert type(d.decode(blob)).__module__ == "numpy"
try:
    d.decode(blob, framework="torch")
except d.InvalidInputError as error:
    assert "torch has not been imported" in str(error)
else:
    raise AssertionError("no error")
assert "torch" not in sys.modules
"""
    )


def test_bfloat16_without_ml_dtypes_comes_as_float32(tensor: Floats) -> None:
    x = tensor.astype(ml_dtypes.bfloat16)
    blob = Identity().encode(x)
    printed = run_python(
        f"""
import sys
import docofl_codec as d
x = d.decode(bytes.fromhex("{blob.hex()}"))
assert "ml_dtypes" not in sys.modules
assert x.dtype == "float32" and x.shape == (2, 3, 5)
print(x.tobytes().hex())
"""
    )
    assert bytes.fromhex(printed) == x.astype(np.float32).tobytes()


# expected_shape ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 3, 5), [2, 3, 5], np.array([2, 3, 5])])
def test_expected_shape(blob: bytes, shape: Any) -> None:
    assert decode(blob, expected_shape=shape).shape == (2, 3, 5)


@pytest.mark.parametrize("shape", [(), (30,), (2, 3), (5, 3, 2), (2, 3, 5, 1)])
def test_unexpected_shape(blob: bytes, shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match=r"shape: found \(2, 3, 5\), expected"):
        decode(blob, expected_shape=shape)


# max_output_bytes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "needed"),
    [(np.float32, 120), (np.float64, 240), (np.float16, 60), (ml_dtypes.bfloat16, 60)],
)
def test_max_output_bytes(tensor: Floats, dtype: npt.DTypeLike, needed: int) -> None:
    blob = ecuq.encode(tensor.astype(dtype), bits=4)
    assert np.asarray(decode(blob, max_output_bytes=needed)).nbytes == needed
    message = f"output: the frame needs {needed} bytes, expected at most {needed - 1}"
    with pytest.raises(LimitExceededError, match=message):
        decode(blob, max_output_bytes=needed - 1)


def test_max_output_bytes_counts_what_is_really_allocated(tensor: Floats) -> None:
    """A bfloat16 frame that becomes float32 takes twice as much."""
    blob = Identity().encode(tensor.astype(ml_dtypes.bfloat16))
    run_python(
        f"""
import docofl_codec as d
blob = bytes.fromhex("{blob.hex()}")
for limit in (60, 119):
    try:
        x = d.decode(blob, max_output_bytes=limit)
    except d.LimitExceededError:
        continue
    raise AssertionError(f"{{x.nbytes}} bytes under a limit of {{limit}}")
assert d.decode(blob, max_output_bytes=120).nbytes == 120
"""
    )


def test_limit_of_zero_takes_empty_tensors_only(blob: bytes) -> None:
    empty = ecuq.encode(np.empty((0, 3), np.float32), bits=2)
    assert decode(empty, max_output_bytes=0).shape == (0, 3)
    with pytest.raises(LimitExceededError):
        decode(blob, max_output_bytes=0)


# ecuq.decode and decode --------------------------------------------------------------------------


def test_ecuq_decode_has_the_same_options(blob: bytes) -> None:
    out = np.empty((2, 3, 5), np.float32)
    result = ecuq.decode(
        blob,
        out=out,
        framework="numpy",
        expected_shape=(2, 3, 5),
        max_output_bytes=120,
        threads=2,
    )
    assert result is out


def test_ecuq_decode_refuses_other_codecs(tensor: Floats) -> None:
    with pytest.raises(UnsupportedFrameError, match="codec: found identity, expected ecuq"):
        ecuq.decode(Identity().encode(tensor))
