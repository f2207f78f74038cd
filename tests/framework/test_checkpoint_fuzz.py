"""Row 32: any bytes give a checkpoint or a ``CheckpointError`` that leaves the run as it was."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docofl_codec.framework import CheckpointError, load_checkpoint, save_checkpoint
from docofl_codec.framework.checkpoint import MAGIC, VERSION
from tests.framework.test_checkpoint import new_loop

fuzzed = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])

# What JSON can say where something else was expected.
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([-1, 0, 1, 2**31, 2**63 - 1, 2**63, 2**64]),
    st.floats(),
    st.text(max_size=5),
)
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        scalars,
        st.builds(dict, **{"$bytes": scalars}),
        st.builds(dict, **{"$floats": scalars}),
        st.builds(dict, **{"$floats": st.integers(-2, 12)}),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


class Saved:
    """A checkpoint after two rounds, in its parts."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run.ckpt"
        loop = new_loop()
        loop.step()
        loop.step()
        save_checkpoint(self.path, loop)
        data = self.path.read_bytes()
        size = struct.unpack("<Q", data[12:20])[0]
        self.text = data[20 : 20 + size]
        self.blobs = data[20 + size : -32]

    def write(self, text: bytes, blobs: bytes, *, sealed: bool = True) -> None:
        body = struct.pack("<8sIQ", MAGIC, VERSION, len(text)) + text + blobs
        digest = hashlib.sha256(body).digest() if sealed else bytes(32)
        self.path.write_bytes(body + digest)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    return Saved(tmp_path_factory.mktemp("checkpoint"))


def frozen(value: Any) -> Any:
    """Return a tree as something that can be compared, bit for bit."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, dict):
        return [(key, frozen(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [frozen(item) for item in value]
    return value


def check_load(saved: Saved) -> bool:
    """Load what was written; return whether that was possible."""
    loop = new_loop()
    before = frozen(loop.state())
    try:
        load_checkpoint(saved.path, loop)
    except CheckpointError:
        assert frozen(loop.state()) == before
        return False
    return True


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every node of a tree."""
    yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield from places(item, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    """Return a tree with another node at a path."""
    if not path:
        return by
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], by)
    return copy


def test_the_checkpoint_itself_loads(saved: Saved) -> None:
    saved.write(saved.text, saved.blobs)
    assert check_load(saved)
    saved.write(saved.text, saved.blobs, sealed=False)
    assert not check_load(saved)


@fuzzed
@given(data=st.data())
def test_any_node_of_the_metadata_is_another(saved: Saved, data: st.DataObject) -> None:
    metadata = json.loads(saved.text)
    paths = list(places(metadata))
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(paths))
        try:
            metadata = replaced(metadata, path, data.draw(values))
        except (LookupError, TypeError, ValueError):
            continue  # the first replacement took the second one's place away
    saved.write(json.dumps(metadata).encode(), saved.blobs)
    check_load(saved)


@fuzzed
@given(data=st.data())
def test_metadata_of_other_bytes(saved: Saved, data: st.DataObject) -> None:
    text = bytearray(saved.text)
    place = data.draw(st.integers(0, len(text) - 1))
    text[place : place + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    saved.write(bytes(text), saved.blobs)
    check_load(saved)


@fuzzed
@given(data=st.data())
def test_blobs_of_other_bytes(saved: Saved, data: st.DataObject) -> None:
    blobs = bytearray(saved.blobs)
    place = data.draw(st.integers(0, len(blobs) - 1))
    new = data.draw(st.binary(min_size=1, max_size=16))
    blobs[place : place + len(new)] = new[: len(blobs) - place]
    saved.write(saved.text, bytes(blobs))
    check_load(saved)


@fuzzed
@given(noise=st.binary(max_size=300), sealed=st.booleans())
def test_noise(saved: Saved, noise: bytes, sealed: bool) -> None:
    saved.write(noise, b"", sealed=sealed)
    assert not check_load(saved)
    saved.path.write_bytes(noise)
    assert not check_load(saved)
