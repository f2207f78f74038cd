"""Examples in the integrations' docstrings and guides run."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import pytest

from docofl_codec import integrations
from tests.unit.test_documentation import INTEGRATION_PAGES, ROOT, run_doctests, run_page

pytestmark = pytest.mark.integration

MODULES = [
    module.name
    for module in pkgutil.walk_packages(integrations.__path__, integrations.__name__ + ".")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    assert run_doctests(name).failed == 0


@pytest.mark.parametrize("page", INTEGRATION_PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)
