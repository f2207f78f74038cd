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
from tests.golden.make_golden import MANIFEST, MAX_TOTAL_BYTES, values_hash

ENTRIES: dict[str, dict[str, Any]] = json.loads(MANIFEST.read_text(encoding="utf-8"))


def frame(name: str) -> bytes:
    return (MANIFEST.parent / f"{name}.docofl").read_bytes()


def test_manifest_files_and_cases_are_the_same() -> None:
    files = {path.stem for path in MANIFEST.parent.glob("*.docofl")}
    assert files == set(ENTRIES) == set(CASES)
    assert sum(len(frame(name)) for name in files) <= MAX_TOTAL_BYTES


@pytest.mark.parametrize("name", ENTRIES)
def test_frame_is_as_recorded(name: str) -> None:
    assert hashlib.sha256(frame(name)).hexdigest() == ENTRIES[name]["frame_sha256"]
    info = inspect(frame(name))
    assert (info.dtype, list(info.shape)) == (ENTRIES[name]["dtype"], ENTRIES[name]["shape"])
    assert {key: getattr(info, key) for key in CASES[name].shows} == CASES[name].shows


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("name", ENTRIES)
def test_core_decodes_the_recorded_values(name: str, threads: int, isa: str) -> None:
    assert isa
    x = np.asarray(decode(frame(name), threads=threads))
    assert (x.dtype.name, list(x.shape)) == (ENTRIES[name]["dtype"], ENTRIES[name]["shape"])
    assert values_hash(x) == ENTRIES[name]["decoded_sha256"]


@pytest.mark.parametrize("name", ENTRIES)
def test_reference_decodes_the_recorded_values(name: str) -> None:
    values, info = decode_frame(frame(name))
    assert (info["dtype"], list(values.shape)) == (ENTRIES[name]["dtype"], ENTRIES[name]["shape"])
    assert values_hash(values) == ENTRIES[name]["decoded_sha256"]


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
