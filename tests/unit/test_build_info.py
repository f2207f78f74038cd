"""What the extension says about itself, and the choice of an instruction set."""

from __future__ import annotations

import re

import pytest

import docofl_codec
from docofl_codec import InvalidInputError, _core, build_info
from tests.helpers.processes import run_python

PRINT_ISA = "import docofl_codec; print(docofl_codec.build_info()['isa'])"


def test_build_info() -> None:
    info = build_info()
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", info["version"])
    assert docofl_codec.__version__ == info["version"]
    assert info["compiler"]
    assert info["isa"] in info["isa_levels"]
    assert info["isa_levels"][0] == "baseline"
    assert isinstance(info["openmp"], bool)


def test_set_isa(isa: str) -> None:
    assert build_info()["isa"] == isa


def test_unknown_isa() -> None:
    before = build_info()["isa"]
    with pytest.raises(InvalidInputError, match="ISA level: found 'v9', expected one of: baseline"):
        _core.set_isa("v9")
    assert build_info()["isa"] == before


@pytest.mark.parametrize("name", build_info()["isa_levels"])
def test_isa_from_the_environment(name: str) -> None:
    assert run_python(PRINT_ISA, env={"DOCOFL_CODEC_ISA": name}).strip() == name


@pytest.mark.parametrize(
    ("name", "expected"), [("", build_info()["isa_levels"][-1]), ("v9", "baseline")]
)
def test_isa_without_a_usable_name(name: str, expected: str) -> None:
    assert run_python(PRINT_ISA, env={"DOCOFL_CODEC_ISA": name}).strip() == expected


def test_importing_the_package_imports_no_torch() -> None:
    run_python(
        "import sys, docofl_codec; "
        "assert not {'torch', 'ml_dtypes', 'hypothesis', 'pytest'} & set(sys.modules)"
    )
