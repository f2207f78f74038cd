"""One measured point of a figure, and files of them."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

__all__ = ["Row", "read_csv", "write_csv"]


@dataclass(frozen=True)
class Row:
    """The means of a codec's repeats at one point.

    Attributes
    ----------
    figure, panel : str
        Where the point belongs; a panel is a kind of vector.
    codec : str
        As the legend names it.
    dimension : int
        Coordinates of the vector.
    budget : float
        Bits a coordinate that were asked for.
    bits : float
        Bits a coordinate of the whole frame.
    nmse : float
        Squared norm of the error over squared norm of the vector.
    encode_seconds : float
        CPU time on one thread, which other load of the machine does not lengthen much.
    encode_seconds_least : float
        The least of the repeats.
    repeats : int
    """

    figure: str
    panel: str
    codec: str
    dimension: int
    budget: float
    bits: float
    nmse: float
    encode_seconds: float
    encode_seconds_least: float
    repeats: int


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    """Write rows, with four significant digits of what was measured."""
    names = [field.name for field in fields(Row)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            values = asdict(row)
            for name in ("bits", "nmse", "encode_seconds", "encode_seconds_least"):
                values[name] = f"{values[name]:.4g}"
            writer.writerow(values)


def read_csv(path: Path) -> list[Row]:
    """Read what :func:`write_csv` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Row(
                figure=row["figure"],
                panel=row["panel"],
                codec=row["codec"],
                dimension=int(row["dimension"]),
                budget=float(row["budget"]),
                bits=float(row["bits"]),
                nmse=float(row["nmse"]),
                encode_seconds=float(row["encode_seconds"]),
                encode_seconds_least=float(row["encode_seconds_least"]),
                repeats=int(row["repeats"]),
            )
            for row in csv.DictReader(file)
        ]
