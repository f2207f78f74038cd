"""From the folders of runs to files."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable
from pathlib import Path

from matplotlib.figure import Figure

from docofl_codec.fl.report.curves import draw_all
from docofl_codec.fl.report.page import make_page
from docofl_codec.fl.report.runs import RunFolderError, group_runs, read_run

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
        Folders with ``config.json`` and ``metrics.jsonl``.
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
    runs = [read_run(Path(path)) for path in run_dirs]
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
    page.write_text(make_page(title, tasks), encoding="utf-8")
    return page


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _file_name(task: str, name: str) -> str:
    prefix = re.sub(r"[^A-Za-z0-9_.-]+", "-", task).strip("-.")
    return f"{prefix}-{name}" if prefix else name
