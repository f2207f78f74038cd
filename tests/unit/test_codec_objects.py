"""Codecs as objects: configuration, spelling, protocol."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from docofl_codec import (
    Codec,
    Ecuq,
    Eden,
    Identity,
    InvalidInputError,
    UnsupportedFrameError,
    codec_from_config,
    ecuq,
    make_codec,
)
from tests.helpers.data import Floats

CODECS: list[Codec] = [
    Ecuq(),
    Ecuq(bits=1.5),
    Ecuq(bits=4, budget="entropy", tolerance=0.1, threads=2),
    Identity(),
    Identity(threads=1),
]
RANDOM_CODECS: list[Codec] = [
    Eden(),
    Eden(bits=0.5),
    Eden(bits=2.5, scale="mse", threads=2),
    Eden(bits=4, entropy_coded=True),
]


@pytest.mark.parametrize("codec", [*CODECS, *RANDOM_CODECS], ids=repr)
def test_protocol(codec: Codec) -> None:
    assert isinstance(codec, Codec)
    assert not isinstance(object(), Codec)


@pytest.mark.parametrize("codec", [*CODECS, *RANDOM_CODECS], ids=repr)
def test_config_round_trip(codec: Codec) -> None:
    config = codec.get_config()
    assert codec_from_config(json.loads(json.dumps(config))) == codec
    assert set(config) == {"codec", *(field.name for field in dataclasses.fields(codec))}  # type: ignore[arg-type]


def test_config_is_not_consumed() -> None:
    config = Ecuq(bits=3).get_config()
    codec_from_config(config)
    assert config == Ecuq(bits=3).get_config()


@pytest.mark.parametrize("codec", [*CODECS, *RANDOM_CODECS], ids=repr)
def test_codecs_are_frozen_and_hashable(codec: Codec) -> None:
    assert codec in {codec}
    with pytest.raises(dataclasses.FrozenInstanceError):
        codec.threads = 3  # type: ignore[attr-defined]


def test_equality() -> None:
    assert Ecuq(bits=2) == Ecuq() != Ecuq(bits=3)
    assert Eden(bits=1) == Eden() != Eden(entropy_coded=True)


@pytest.mark.parametrize(
    ("spelling", "codec"),
    [
        ("ecuq", Ecuq()),
        ("ecuq:2", Ecuq(bits=2)),
        ("ecuq:1.5", Ecuq(bits=1.5)),
        ("eden", Eden()),
        ("eden:2", Eden(bits=2)),
        ("eden:0.5", Eden(bits=0.5)),
        ("identity", Identity()),
    ],
)
def test_make_codec(spelling: str, codec: Codec) -> None:
    assert make_codec(spelling) == codec


@pytest.mark.parametrize(
    "spelling",
    ["", "ECUQ", "zip", "zip:2", "ecuq:", "ecuq:two", "ecuq:2:3", "identity:2", ":2", "eden:x"],
)
def test_make_codec_refuses(spelling: str) -> None:
    with pytest.raises(InvalidInputError):
        make_codec(spelling)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"codec": None},
        {"codec": "zip"},
        {"bits": 2},
        {"codec": "ecuq", "bit": 2},
        {"codec": "identity", "bits": 2},
        {"codec": "eden", "seed": 2},
    ],
)
def test_config_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        codec_from_config(config)


def test_options_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        Ecuq(2)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Eden(2)  # type: ignore[call-arg]


def test_ecuq_uses_its_options(tensor: Floats) -> None:
    codec = Ecuq(bits=3, budget="entropy", tolerance=0.2)
    expected = ecuq.encode(tensor, bits=3, budget="entropy", tolerance=0.2)
    assert codec.encode(tensor) == expected != Ecuq(bits=3).encode(tensor)


def test_options_are_checked_when_it_encodes(tensor: Floats) -> None:
    with pytest.raises(InvalidInputError, match="bits"):
        Ecuq(bits=-1).encode(tensor)
    with pytest.raises(InvalidInputError, match="bits"):
        Eden(bits=-1).encode(tensor)
    with pytest.raises(InvalidInputError, match="threads"):
        Identity(threads=0).encode(tensor)


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_seed_changes_nothing(codec: Codec, tensor: Floats) -> None:
    assert codec.encode(tensor, seed=7) == codec.encode(tensor)


@pytest.mark.parametrize("codec", RANDOM_CODECS, ids=repr)
def test_seed_fixes_the_frame(codec: Codec, tensor: Floats) -> None:
    assert codec.encode(tensor, seed=7) == codec.encode(tensor, seed=7) != codec.encode(tensor)


@pytest.mark.parametrize("codec", [*CODECS, *RANDOM_CODECS], ids=repr)
def test_decode_into_out(codec: Codec, tensor: Floats) -> None:
    out = np.empty_like(tensor)
    assert codec.decode(codec.encode(tensor, seed=7), out=out) is out
    assert np.array_equal(out, codec.decode(codec.encode(tensor, seed=7)))


def test_codecs_refuse_frames_of_each_other(tensor: Floats) -> None:
    with pytest.raises(UnsupportedFrameError, match="codec: found ecuq, expected identity"):
        Identity().decode(Ecuq().encode(tensor))
    with pytest.raises(UnsupportedFrameError, match="codec: found identity, expected ecuq"):
        Ecuq().decode(Identity().encode(tensor))
    with pytest.raises(UnsupportedFrameError, match="codec: found ecuq, expected eden"):
        Eden().decode(Ecuq().encode(tensor))
