"""Curves and one self-contained page from the folders that runs wrote."""

from __future__ import annotations

from docofl_codec.fl.report.runs import Run, read_run
from docofl_codec.fl.report.write import write_report
from docofl_codec.fl.run_files import RunFolderError

__all__ = ["Run", "RunFolderError", "read_run", "write_report"]
