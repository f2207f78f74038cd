"""Examples in the integrations' docstrings and guides run."""

from __future__ import annotations

import pkgutil
import sys
from pathlib import Path

import pytest

from docofl_codec import integrations
from tests.unit.test_documentation import INTEGRATION_PAGES, ROOT, run_doctests, run_page

pytestmark = pytest.mark.integration

MODULES = [
    module.name
    for module in pkgutil.walk_packages(integrations.__path__, integrations.__name__ + ".")
]
HAS_ZARR_3 = sys.version_info >= (3, 11)  # as the extra has it


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    if name.endswith(".zarr") and not HAS_ZARR_3:
        pytest.skip("needs zarr 3")
    assert run_doctests(name).failed == 0


@pytest.mark.parametrize("page", INTEGRATION_PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.name == "zarr.md" and not HAS_ZARR_3:
        pytest.skip("needs zarr 3")
    monkeypatch.chdir(tmp_path)
    run_page(page)
