"""What `inspect` says about a frame, checked against the reference decoder and the tensor."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from docofl_codec import CorruptFrameError, FrameInfo, Identity, ecuq, inspect
from docofl_codec.reference import decode_frame
from tests.helpers.data import Floats, constant, normal

LEVEL_FIELDS = (
    "num_levels",
    "step",
    "x_min",
    "x_max",
    "entropy",
    "explicit_levels",
    "coded_levels",
    "tuple_size",
    "raw_bits",
    "num_outliers",
)


def test_header_fields(tensor: Floats) -> None:
    blob = ecuq.encode(tensor, bits=4)
    info = inspect(blob)
    assert (info.codec, info.dtype, info.shape) == ("ecuq", "float32", (2, 3, 5))
    assert (info.framework, info.size, info.frame_bytes) == ("numpy", 30, len(blob))
    assert info.bits_per_coordinate == 8 * len(blob) / 30


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_dtype(tensor: Floats, dtype: str) -> None:
    assert inspect(ecuq.encode(tensor.astype(dtype), bits=4)).dtype == dtype
    assert inspect(Identity().encode(tensor.astype(dtype))).dtype == dtype


@pytest.mark.parametrize("bits", [0.5, 2, 4, 12])
def test_levels_agree_with_the_reference_decoder(
    data_set: Callable[[int], Floats], bits: float
) -> None:
    blob = ecuq.encode(data_set(5000), bits=bits)
    info, expected = dataclasses.asdict(inspect(blob)), decode_frame(blob)[1]
    shared = set(LEVEL_FIELDS) & set(expected)
    assert len(shared) >= 9
    assert {name: info[name] for name in shared} == {name: expected[name] for name in shared}


def test_uniform_levels() -> None:
    x = normal(5000)
    info = inspect(ecuq.encode(x, bits=4))
    assert info.explicit_levels is False
    assert info.num_levels is not None
    assert info.x_min is not None
    assert info.x_max is not None
    assert info.step is not None
    assert info.step == pytest.approx((info.x_max - info.x_min) / info.num_levels)
    assert info.x_min <= x.min() < info.x_min + info.step
    assert info.x_max - info.step < x.max() <= info.x_max
    assert 3 < (info.entropy or 0) < 4


def test_explicit_levels() -> None:
    info = inspect(ecuq.encode(np.array([-1, 5, 5, 5] * 500, np.float32), bits=4))
    assert info.explicit_levels is True
    assert (info.num_levels, info.step, info.x_min, info.x_max) == (2, 0.0, -1.0, 5.0)
    assert info.entropy is not None
    assert info.entropy <= 0.8113


def test_entropy_rule_reports_the_entropy_of_the_levels() -> None:
    x = normal(20_000)
    blob = ecuq.encode(x, bits=3.3, budget="entropy")
    _, counts = np.unique(ecuq.decode(blob), return_counts=True)
    p = counts / x.size
    assert inspect(blob).entropy == pytest.approx(float(-(p * np.log2(p)).sum()), abs=1e-6)


def test_constant() -> None:
    info = inspect(ecuq.encode(constant(100), bits=4))
    assert (info.num_levels, info.explicit_levels, info.entropy) == (1, True, 0.0)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_empty(shape: tuple[int, ...]) -> None:
    info = inspect(ecuq.encode(np.empty(shape, np.float32), bits=4))
    assert (info.shape, info.size, info.bits_per_coordinate) == (shape, 0, 0.0)
    assert info.num_levels == 0


def test_identity_has_no_levels(tensor: Floats) -> None:
    info = inspect(Identity().encode(tensor))
    assert info.codec == "identity"
    assert {getattr(info, name) for name in LEVEL_FIELDS} == {None}


def test_info_is_frozen(blob: bytes) -> None:
    info = inspect(blob)
    assert isinstance(info, FrameInfo)
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.size = 3  # type: ignore[misc]


def test_checksum_is_verified(blob: bytes) -> None:
    damaged = blob[:-1] + bytes([blob[-1] ^ 1])
    with pytest.raises(CorruptFrameError, match="checksum"):
        inspect(damaged)


@pytest.mark.parametrize("wrong", [None, "frame", 3, [1, 2]])
def test_wrong_type(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"blob: found .*, expected bytes"):
        inspect(wrong)
