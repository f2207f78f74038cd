"""Row 23: the same input gives the same bytes on every thread count and instruction set."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import pytest

from docofl_codec import Ecuq, Identity, _core, build_info, ecuq
from docofl_codec.ecuq import Budget
from tests.golden.cases import CASES, bell, heavy, with_outliers
from tests.golden.make_golden import values_hash
from tests.golden.test_golden_frames import ENTRIES, frame
from tests.helpers.processes import run_python

PRINT_HASHES = """
import hashlib, json
from tests.golden.cases import CASES
from docofl_codec import build_info
hashes = {
    name: hashlib.sha256(case.codec.encode(case.make())).hexdigest() for name, case in CASES.items()
}
print(json.dumps([build_info()["isa"], hashes]))
"""


@pytest.mark.parametrize("name", CASES)
def test_inputs_are_the_recorded_ones(name: str) -> None:
    assert values_hash(CASES[name].make()) == ENTRIES[name]["input_sha256"]


@pytest.mark.parametrize("name", CASES)
def test_encoder_writes_the_golden_frames(name: str, isa: str) -> None:
    """Where this fails after a change of the encoder, `make golden` records the new bytes."""
    assert isa
    case, expected = CASES[name], frame(name)
    assert isinstance(case.codec, (Ecuq, Identity))
    for threads in (None, 1, 2, 3, 8):
        codec = dataclasses.replace(case.codec, threads=threads)
        assert codec.encode(case.make()) == expected, f"{threads} threads"


@pytest.mark.parametrize("name", build_info()["isa_levels"])
def test_instruction_set_from_the_environment(name: str) -> None:
    isa, hashes = json.loads(run_python(PRINT_HASHES, env={"DOCOFL_CODEC_ISA": name}))
    assert isa == name
    assert hashes == {key: entry["frame_sha256"] for key, entry in ENTRIES.items()}


@pytest.mark.parametrize("budget", ["bytes", "entropy"])
@pytest.mark.parametrize("bits", [0.5, 2, 4, 12])
def test_large_tensors(bits: float, budget: Budget) -> None:
    """Too large to be recorded: many blocks, a sample, and threads that share them out."""
    for x in (bell(200_000, 1), heavy(200_000, 2), with_outliers(200_000, 3)):
        hashes = {
            hashlib.sha256(ecuq.encode(x, bits=bits, budget=budget, threads=threads)).hexdigest()
            for threads in (1, 2, 3, 8)
        }
        assert len(hashes) == 1


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 12])
def test_large_tensors_on_every_instruction_set(bits: float, isa: str) -> None:
    for x in (bell(200_000, 1), heavy(200_000, 2), with_outliers(200_000, 3)):
        _core.set_isa("baseline")
        baseline = ecuq.encode(x, bits=bits)
        values = ecuq.decode(baseline)
        _core.set_isa(isa)
        assert ecuq.encode(x, bits=bits) == baseline
        assert ecuq.decode(baseline).tobytes() == values.tobytes()  # type: ignore[union-attr]
