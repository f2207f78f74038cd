"""Tables and progress on the terminal: with rich where it is installed, else plain text."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass

HAVE_RICH = importlib.util.find_spec("rich") is not None


@dataclass(frozen=True)
class Table:
    """A table, ready to print.

    Attributes
    ----------
    title
        Line above the table.
    columns
        Headings.
    rows
        Cells, as text.
    left
        Headings of the columns to align on the left.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[str]


def show(table: Table) -> None:
    """Print a table."""
    if HAVE_RICH:
        _show_rich(table)
    else:
        _show_plain(table)


def progress(text: str) -> None:
    """Say what is being measured, where someone watches: on a terminal, in one line."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _show_rich(table: Table) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    drawn = RichTable(title=table.title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in table.columns:
        drawn.add_column(column, justify="left" if column in table.left else "right", no_wrap=True)
    for cells in table.rows:
        drawn.add_row(*cells)
    # Piped output keeps its full width, as a file has no edge to wrap at.
    Console(width=None if sys.stdout.isatty() else 200).print(drawn)


def _show_plain(table: Table) -> None:
    lines = [table.columns, *table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{table.title}")
    for cells in lines:
        aligned = [
            cell.ljust(width) if column in table.left else cell.rjust(width)
            for column, cell, width in zip(table.columns, cells, widths, strict=True)
        ]
        print("  ".join(aligned).rstrip())
