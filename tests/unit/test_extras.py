"""Without an integration's package, the error says what to install."""

from __future__ import annotations

import pytest

from tests.helpers.processes import run_python

# Imports a module while packages cannot be found, and prints the error.
IMPORT_WITHOUT = """
import importlib, importlib.abc, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
try:
    importlib.import_module({module!r})
except ImportError as error:
    print(type(error).__name__, error.name, error)
"""

CASES = [
    ("ddp", "torch", "torch"),
    ("flower", "flwr", "flower"),
    ("numcodecs", "numcodecs", "zarr"),
    ("zarr", "zarr", "zarr"),
]


@pytest.mark.parametrize(("module", "package", "extra"), CASES)
def test_the_error_names_the_extra(module: str, package: str, extra: str) -> None:
    code = IMPORT_WITHOUT.format(module=f"docofl_codec.integrations.{module}", package=package)
    expected = f"{package}: not found, expected: pip install 'docofl_codec[{extra}]'"
    assert run_python(code).strip() == f"ModuleNotFoundError {package} {expected}"
