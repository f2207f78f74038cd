"""Row 23 for version 2: golden frames decode to the recorded values for ever."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import numpy as np
import pytest

from docofl_codec import Ecuq, _core, decode, ecuq, inspect
from docofl_codec.reference import decode_frame
from tests.golden.best_cases import BEST_CASES
from tests.golden.cases import bell, heavy, with_outliers
from tests.golden.make_golden import BEST_FOLDER, SECOND_FOLDER, values_hash

FOLDERS = {folder.name: folder for folder in (SECOND_FOLDER, BEST_FOLDER)}
MANIFESTS: dict[str, dict[str, dict[str, Any]]] = {
    name: json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for name, folder in FOLDERS.items()
}
ENTRIES = MANIFESTS[BEST_FOLDER.name]

every_frame = pytest.mark.parametrize(
    ("folder", "name"), [(folder, name) for folder in FOLDERS for name in MANIFESTS[folder]]
)


def frame(name: str, folder: str = BEST_FOLDER.name) -> bytes:
    return (FOLDERS[folder] / f"{name}.docofl").read_bytes()


@pytest.mark.parametrize("folder", FOLDERS)
def test_manifest_files_and_cases_are_the_same(folder: str) -> None:
    files = {path.stem for path in FOLDERS[folder].glob("*.docofl")}
    assert files == set(MANIFESTS[folder]) <= set(BEST_CASES)
    assert set(ENTRIES) == set(BEST_CASES)
    assert {frame(name, folder)[3] for name in files} == {2}


@every_frame
def test_frame_is_as_recorded(folder: str, name: str) -> None:
    recorded = MANIFESTS[folder][name]["frame_sha256"]
    assert hashlib.sha256(frame(name, folder)).hexdigest() == recorded
    info = inspect(frame(name, folder))
    shows = BEST_CASES[name].shows
    assert {key: getattr(info, key) for key in shows} == shows


@pytest.mark.parametrize("threads", [1, 3])
@every_frame
def test_core_decodes_the_recorded_values(folder: str, name: str, threads: int, isa: str) -> None:
    assert isa
    entry = MANIFESTS[folder][name]
    x = np.asarray(decode(frame(name, folder), threads=threads))
    assert (x.dtype.name, list(x.shape)) == (entry["dtype"], entry["shape"])
    assert values_hash(x) == entry["decoded_sha256"]


@every_frame
def test_reference_decodes_the_recorded_values(folder: str, name: str) -> None:
    values, _ = decode_frame(frame(name, folder))
    assert values_hash(values) == MANIFESTS[folder][name]["decoded_sha256"]


@pytest.mark.parametrize("name", BEST_CASES)
def test_encoder_writes_the_golden_frames(name: str, isa: str) -> None:
    """Where this fails after a change of the encoder, `make golden` records the new bytes."""
    assert isa
    case = BEST_CASES[name]
    assert values_hash(case.make()) == ENTRIES[name]["input_sha256"]
    assert isinstance(case.codec, Ecuq)
    for threads in (None, 1, 2, 3, 8):
        assert case.encode(dataclasses.replace(case.codec, threads=threads)) == frame(name)


@pytest.mark.parametrize("options", [{"quality": "best"}, {"coder": "rans"}], ids=str)
@pytest.mark.parametrize("bits", [0.5, 2, 4])
def test_large_tensors(bits: float, options: dict[str, Any], isa: str) -> None:
    """A sample, several blocks and tables, threads that share them out, all instruction sets."""
    for x in (bell(300_000, 1), heavy(300_000, 2), with_outliers(300_000, 3)):
        _core.set_isa("baseline")
        baseline = ecuq.encode(x, bits=bits, threads=2, **options)
        values = np.asarray(ecuq.decode(baseline)).tobytes()
        _core.set_isa(isa)
        for threads in (1, 3, 8):
            assert ecuq.encode(x, bits=bits, threads=threads, **options) == baseline
            assert np.asarray(ecuq.decode(baseline, threads=threads)).tobytes() == values
