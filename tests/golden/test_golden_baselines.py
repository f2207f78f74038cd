"""Row 23 for the baselines: golden frames decode to the recorded values for ever."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest

from docofl_codec import decode, inspect
from tests.golden.baseline_cases import BASELINE_CASES
from tests.golden.make_golden import BASELINE_FOLDER, values_hash

ENTRIES: dict[str, dict[str, Any]] = json.loads(
    (BASELINE_FOLDER / "manifest.json").read_text(encoding="utf-8")
)


def frame(name: str) -> bytes:
    return (BASELINE_FOLDER / f"{name}.docofl").read_bytes()


def test_manifest_files_and_cases_are_the_same() -> None:
    files = {path.stem for path in BASELINE_FOLDER.glob("*.docofl")}
    assert files == set(ENTRIES) == set(BASELINE_CASES)


def test_every_codec_is_shown() -> None:
    assert {frame(name)[4] for name in ENTRIES} == set(range(16, 24))


@pytest.mark.parametrize("name", ENTRIES)
def test_frame_is_as_recorded(name: str) -> None:
    assert hashlib.sha256(frame(name)).hexdigest() == ENTRIES[name]["frame_sha256"]
    info = inspect(frame(name))
    assert (info.dtype, list(info.shape)) == (ENTRIES[name]["dtype"], ENTRIES[name]["shape"])
    shows = BASELINE_CASES[name].shows
    assert {key: getattr(info, key) for key in shows} == shows


@pytest.mark.parametrize("name", ENTRIES)
def test_frame_decodes_to_the_recorded_values(name: str, isa: str) -> None:
    assert isa
    x = np.asarray(decode(frame(name)))
    assert (x.dtype.name, list(x.shape)) == (ENTRIES[name]["dtype"], ENTRIES[name]["shape"])
    assert values_hash(x) == ENTRIES[name]["decoded_sha256"]


@pytest.mark.parametrize("name", BASELINE_CASES)
def test_encoder_writes_the_golden_frames(name: str, isa: str) -> None:
    """Where this fails after a change of the encoder, `make golden` records the new bytes."""
    assert isa
    assert values_hash(BASELINE_CASES[name].make()) == ENTRIES[name]["input_sha256"]
    assert BASELINE_CASES[name].encode() == frame(name)
