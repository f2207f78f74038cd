"""Row 23: the same input gives the same bytes on every thread count and instruction set."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import numpy as np
import pytest

from docofl_codec import Ecuq, Eden, Identity, _core, build_info, ecuq, eden, encode_state_dict
from docofl_codec.ecuq import Budget
from tests.golden import state_dict_case
from tests.golden.cases import CASES, bell, heavy, with_outliers
from tests.golden.make_golden import values_hash
from tests.golden.test_golden_best import ENTRIES as BEST_ENTRIES
from tests.golden.test_golden_frames import ENTRIES, frame
from tests.helpers.data import SEED
from tests.helpers.processes import run_python

PRINT_HASHES = """
import hashlib, json
from tests.golden import state_dict_case
from tests.golden.best_cases import BEST_CASES
from tests.golden.cases import CASES
from docofl_codec import build_info, encode_state_dict
hashes = [
    {name: hashlib.sha256(case.encode()).hexdigest() for name, case in cases.items()}
    for cases in (CASES, BEST_CASES)
]
model = encode_state_dict(state_dict_case.make(), bits=state_dict_case.BITS)
print(json.dumps([build_info()["isa"], *hashes, hashlib.sha256(model).hexdigest()]))
"""


@pytest.mark.parametrize("name", CASES)
def test_inputs_are_the_recorded_ones(name: str) -> None:
    assert values_hash(CASES[name].make()) == ENTRIES[name]["input_sha256"]


@pytest.mark.parametrize("name", CASES)
def test_encoder_writes_the_golden_frames(name: str, isa: str) -> None:
    """Where this fails after a change of the encoder, `make golden` records the new bytes."""
    assert isa
    case, expected = CASES[name], frame(name)
    assert isinstance(case.codec, (Ecuq, Eden, Identity))
    for threads in (None, 1, 2, 3, 8):
        codec = dataclasses.replace(case.codec, threads=threads)
        assert case.encode(codec) == expected, f"{threads} threads"


@pytest.mark.parametrize("name", build_info()["isa_levels"])
def test_instruction_set_from_the_environment(name: str) -> None:
    printed = run_python(PRINT_HASHES, env={"DOCOFL_CODEC_ISA": name})
    isa, hashes, best_hashes, model_hash = json.loads(printed)
    assert isa == name
    assert hashes == {key: entry["frame_sha256"] for key, entry in ENTRIES.items()}
    assert best_hashes == {key: entry["frame_sha256"] for key, entry in BEST_ENTRIES.items()}
    model = encode_state_dict(state_dict_case.make(), bits=state_dict_case.BITS, threads=3)
    assert model_hash == hashlib.sha256(model).hexdigest()


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


# EDEN --------------------------------------------------------------------------------------------

EDEN_CODECS = [
    *(Eden(bits=bits) for bits in (0.3, 1, 2.5, 4, 8)),
    Eden(bits=2, scale="mse"),
    *(Eden(bits=bits, entropy_coded=True) for bits in (2, 6.5)),
]


@pytest.mark.parametrize("codec", EDEN_CODECS, ids=repr)
def test_large_tensors_of_eden(codec: Eden) -> None:
    for x in (bell(200_003, 1), with_outliers(200_003, 3)):
        hashes = set()
        for threads in (1, 2, 3, 8):
            mine = dataclasses.replace(codec, threads=threads)
            blob = mine.encode(x, seed=SEED)
            values = values_hash(np.asarray(mine.decode(blob)))
            hashes.add((hashlib.sha256(blob).hexdigest(), values))
        assert len(hashes) == 1


@pytest.mark.parametrize("codec", EDEN_CODECS, ids=repr)
def test_large_tensors_of_eden_on_every_instruction_set(codec: Eden, isa: str) -> None:
    for x in (bell(200_003, 1), heavy(200_003, 2), with_outliers(200_003, 3)):
        _core.set_isa("baseline")
        baseline = codec.encode(x, seed=SEED)
        values = np.asarray(codec.decode(baseline))
        _core.set_isa(isa)
        assert codec.encode(x, seed=SEED) == baseline
        assert np.asarray(codec.decode(baseline)).tobytes() == values.tobytes()


def test_means_of_eden_frames(isa: str) -> None:
    """Shared seeds, other widths and entropy-coded frames: the order of additions is fixed."""
    frames = [
        codec.encode(bell(100_003, number), seed=number % 5)
        for number, codec in enumerate(EDEN_CODECS)
    ]
    _core.set_isa("baseline")
    expected = np.asarray(eden.decode_mean(frames, threads=1)).tobytes()
    _core.set_isa(isa)
    for threads in (1, 2, 3, 8):
        assert np.asarray(eden.decode_mean(frames, threads=threads)).tobytes() == expected
