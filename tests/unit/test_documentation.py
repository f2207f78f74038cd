"""Examples in docstrings and in Markdown run, links lead somewhere, the reference is complete."""

from __future__ import annotations

import csv
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import docofl_codec

ROOT = Path(__file__).resolve().parents[2]
INTEGRATIONS = "docofl_codec.integrations."  # need their engines: tests/integration runs them
MODULES = [
    "docofl_codec",
    *(
        module.name
        for module in pkgutil.walk_packages(docofl_codec.__path__, "docofl_codec.")
        if not module.name.endswith("._core") and not module.name.startswith(INTEGRATIONS)
    ),
]
README = ROOT / "README.md"
INTEGRATION_PAGES = [ROOT / "docs" / "guides" / name for name in ("ddp.md", "flower.md", "zarr.md")]
API = ROOT / "docs" / "api"
CODE_BLOCK = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
RELATIVE_LINK = re.compile(r"\]\((?!https?://|#)([^)\s#]+)")
PYTHON_BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def python_blocks(path: Path) -> list[str]:
    """Return the Python blocks of a page, each at the line where it stands in it."""
    text = path.read_text(encoding="utf-8")
    return [
        "\n" * text.count("\n", 0, match.start(1)) + match.group(1)
        for match in PYTHON_BLOCK.finditer(text)
    ]


PAGES = [
    path
    for path in [README, *sorted((ROOT / "docs").rglob("*.md"))]
    if python_blocks(path) and path not in INTEGRATION_PAGES
]


def run_doctests(name: str) -> doctest.TestResults:
    return doctest.testmod(importlib.import_module(name))


def run_page(page: Path) -> None:
    """Run the Python blocks of a page, one after the other."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in python_blocks(page):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    assert run_doctests(name).failed == 0


@pytest.mark.parametrize(
    "name", ["docofl_codec", "docofl_codec.ecuq", "docofl_codec.frame", "docofl_codec.codec"]
)
def test_public_modules_have_examples(name: str) -> None:
    assert run_doctests(name).attempted > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if any("torch" in block for block in python_blocks(page)):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_readme_has_an_example() -> None:
    assert any("ecuq.encode" in block for block in python_blocks(README))


def test_readme_compares_as_measured() -> None:
    """The README's table of codecs has the figures of benchmarks/figures, at 2 bits."""
    measured: dict[tuple[str, str], tuple[float, float]] = {}
    for name in ("sparsification", "gradient"):
        with (ROOT / "benchmarks" / "figures" / f"{name}.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["budget"] == "2":
                    figures = float(row["nmse"]), 1000 * float(row["encode_seconds_least"])
                    measured[row["codec"], row["panel"]] = figures
    rows = re.findall(
        r"^\| (.+?) \| (\S+) \| (\S+) \| (\S+) ms \|", README.read_text("utf-8"), re.MULTILINE
    )
    assert len(rows) == 8
    for codec, lstm, lognormal, milliseconds in rows:
        nmse, encode = measured[codec, "lognormal"]
        assert float(lognormal) == pytest.approx(nmse, rel=0.01)
        assert float(milliseconds) == pytest.approx(encode, rel=0.03)
        if lstm != "–":
            assert float(lstm) == pytest.approx(measured[codec, "lstm"][0], rel=0.01)


@pytest.mark.parametrize(
    "page",
    [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_links(page: Path) -> None:
    """Relative links lead to something in the repository, as the forge shows it."""
    text = CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))
    dead = [link for link in RELATIVE_LINK.findall(text) if not (page.parent / link).exists()]
    assert dead == []


@pytest.mark.parametrize(
    ("module", "page"),
    [
        ("docofl_codec", "codecs"),
        ("docofl_codec.ecuq", "codecs"),
        ("docofl_codec.eden", "codecs"),
        ("docofl_codec.framework", "framework"),
    ],
)
def test_reference_is_complete(module: str, page: str) -> None:
    """Pages that list members by hand have all that are no constants, modules or types."""
    text = (API / f"{page}.md").read_text(encoding="utf-8")
    if module == "docofl_codec":  # the rest of its names
        text += "".join(
            f"autofunction:: {name}\n"
            for other in ("errors", "state_dict")
            for name in importlib.import_module(f"docofl_codec.{other}").__all__
        )
    public = importlib.import_module(module)
    missing = [
        name
        for name in public.__all__
        if inspect.isroutine(value := getattr(public, name)) or inspect.isclass(value)
        if not re.search(rf"(::|members:.*\W) ?{name}\b", text)
    ]
    assert missing == []
