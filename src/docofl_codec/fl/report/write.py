"""From the folders of runs to files."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Iterable
from pathlib import Path

from matplotlib.figure import Figure

from docofl_codec.fl.report.curves import draw_all
from docofl_codec.fl.report.page import make_page
from docofl_codec.fl.report.runs import group_runs, read_run
from docofl_codec.fl.run_files import CONFIG, RunFolderError

__all__ = ["write_report"]

PAGE = "index.html"


def write_report(
    run_dirs: Iterable[str | os.PathLike[str]],
    out_dir: str | os.PathLike[str],
    *,
    title: str = "DoCoFL runs",
) -> Path:
    """Write the curves of some runs as PNG, and one self-contained page, ``index.html``.

    Runs of the same task share figures. Runs that differ by seed alone share a line. Figures whose
    metrics no run has (round times without link speeds, say) are left out.

    Parameters
    ----------
    run_dirs : iterable of path
        Folders with ``config.json`` and ``metrics.jsonl``, or folders of such folders. Files, such
        as the tables beside runs, are passed over.
    out_dir : path
        Made if need be; files of an earlier report are replaced.
    title : str
        Of the page.

    Returns
    -------
    Path
        Of the page.

    Raises
    ------
    RunFolderError
        Where there is no run, or a folder holds none.
    """
    folders = [folder for path in run_dirs for folder in _run_folders(Path(path))]
    runs = [read_run(folder) for folder in {path.resolve(): path for path in folders}.values()]
    if not runs:
        raise RunFolderError("report: found no runs, expected at least one folder")
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    tasks = {}
    for task, groups in group_runs(runs).items():
        images = []
        for curves, figure in draw_all(groups, task):
            content = _png(figure)
            (out / f"{_file_name(task, curves.name)}.png").write_bytes(content)
            images.append((curves.title, curves.caption, content))
        tasks[task] = (groups, images)
    page = out / PAGE
    page.write_bytes(make_page(title, tasks).encode("utf-8", "replace"))
    return page


def _run_folders(path: Path) -> list[Path]:
    """Return a run's folder, or those below a folder that is none itself."""
    if path.is_file():
        return []
    if path.is_dir() and not (path / CONFIG).exists():
        found = sorted(config.parent for config in path.rglob(CONFIG))
        if found:
            return found
    return [path]


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # Of a label in a script that no installed font has, boxes are drawn.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _file_name(task: str, name: str) -> str:
    prefix = re.sub(r"[^A-Za-z0-9_.-]+", "-", task).strip("-.")
    return f"{prefix}-{name}" if prefix else name
