"""Row 23: golden frames of every format version decode to the recorded values for ever."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest

from docofl_codec import decode, inspect
from docofl_codec.reference import decode_frame
from tests.golden.cases import CASES
from tests.golden.make_golden import (
    FIRST_FOLDER,
    LATEST_FOLDER,
    MAX_TOTAL_BYTES,
    values_hash,
)

FOLDERS = {folder.name: folder for folder in (FIRST_FOLDER, LATEST_FOLDER)}
MANIFESTS: dict[str, dict[str, dict[str, Any]]] = {
    name: json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for name, folder in FOLDERS.items()
}
ENTRIES = MANIFESTS[LATEST_FOLDER.name]

every_folder = pytest.mark.parametrize("folder", FOLDERS)
every_frame = pytest.mark.parametrize(
    ("folder", "name"), [(folder, name) for folder in FOLDERS for name in MANIFESTS[folder]]
)


def frame(name: str, folder: str = LATEST_FOLDER.name) -> bytes:
    return (FOLDERS[folder] / f"{name}.docofl").read_bytes()


@every_folder
def test_manifest_files_and_cases_are_the_same(folder: str) -> None:
    files = {path.stem for path in FOLDERS[folder].glob("*.docofl")}
    assert files == set(MANIFESTS[folder]) <= set(CASES)
    assert set(ENTRIES) == set(CASES)
    assert sum(len(frame(name, folder)) for name in files) <= MAX_TOTAL_BYTES


@every_frame
def test_frame_is_as_recorded(folder: str, name: str) -> None:
    entry = MANIFESTS[folder][name]
    assert hashlib.sha256(frame(name, folder)).hexdigest() == entry["frame_sha256"]
    info = inspect(frame(name, folder))
    assert (info.dtype, list(info.shape)) == (entry["dtype"], entry["shape"])
    assert {key: getattr(info, key) for key in CASES[name].shows} == CASES[name].shows


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@every_frame
def test_core_decodes_the_recorded_values(folder: str, name: str, threads: int, isa: str) -> None:
    assert isa
    entry = MANIFESTS[folder][name]
    x = np.asarray(decode(frame(name, folder), threads=threads))
    assert (x.dtype.name, list(x.shape)) == (entry["dtype"], entry["shape"])
    assert values_hash(x) == entry["decoded_sha256"]


@every_frame
def test_reference_decodes_the_recorded_values(folder: str, name: str) -> None:
    entry = MANIFESTS[folder][name]
    values, info = decode_frame(frame(name, folder))
    assert (info["dtype"], list(values.shape)) == (entry["dtype"], entry["shape"])
    assert values_hash(values) == entry["decoded_sha256"]


def test_every_feature_of_the_format_is_shown() -> None:
    infos = [inspect(frame(name)) for name in ENTRIES]
    coded = [info for info in infos if info.num_levels]
    assert {(info.codec, info.dtype) for info in infos} == {
        (codec, dtype)
        for codec in ("identity", "ecuq", "eden")
        for dtype in ("float32", "float64", "float16", "bfloat16")
    }
    tuples = {(info.explicit_levels, info.tuple_size) for info in coded if info.coded_levels != 1}
    assert tuples == {(explicit, size) for explicit in (True, False) for size in (1, 2, 4, 6)}
    assert any(info.raw_bits and info.coded_levels != 1 for info in coded)
    assert any(info.raw_bits and info.coded_levels == 1 for info in coded)
    assert any(info.num_outliers and info.tuple_size == 1 for info in coded)
    assert any(info.num_outliers and info.size > 65_536 for info in coded)
    assert any((info.num_levels or 0) > 2**14 for info in coded)
    assert {frame(name)[3] for name in ENTRIES if inspect(frame(name)).centroids} == {2}
    displaced = [info for info in coded if info.centroids]
    assert {info.tuple_size for info in displaced} == {1, 2, 4, 6}
    assert any(info.num_outliers for info in displaced)
    assert any((info.coded_levels or 0) > 16 for info in displaced)
    assert any((info.num_tables or 0) > 1 for info in displaced)


def test_every_feature_of_eden_is_shown() -> None:
    names = [
        name for name in ENTRIES if name.startswith("eden") and ENTRIES[name]["shape"] != [3, 0]
    ]
    infos = [decode_frame(frame(name))[1] for name in names]
    fixed = [info for info in infos if info["mode"] == 0]
    coded = [info for info in infos if info["mode"] == 1]
    wide = {info["width"] + 1 for info in fixed if info["fraction"]}
    assert {info["width"] for info in fixed} | wide == set(range(9))
    assert {len(info["scales"]) for info in fixed} >= {0, 2, 2 + 11}
    assert {bool(info["ecuq"]) for info in coded} == {True, False}
    assert any(len(info["scales"]) > 2 for info in coded)
    assert any(0 < np.count_nonzero(info["scales"]) < len(info["scales"]) for info in infos)
    assert {info["seed"] for info in infos} >= {0, 2**63, 2**64 - 1}
