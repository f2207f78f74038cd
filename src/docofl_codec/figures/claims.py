"""What the paper says about its figures, checked on measured rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from docofl_codec.figures.experiments import OURS, PRINTED
from docofl_codec.figures.rows import Row

__all__ = ["Claim", "check_claims"]

ECQ_DIMENSION = 4096
ECQ_MARGIN = 1.10
ECQ_SPEED = 1000
LEAST_BUDGET = 2


@dataclass(frozen=True)
class Claim:
    """A statement at one point, with the numbers that decide it.

    Attributes
    ----------
    text : str
    where : str
        Panel, dimension and budget.
    found, limit : float
        It holds if found <= limit.
    """

    text: str
    where: str
    found: float
    limit: float

    @property
    def holds(self) -> bool:
        """Whether the numbers bear it out."""
        return self.found <= self.limit


def check_claims(rows: Iterable[Row]) -> list[Claim]:
    """Return every claim at every point that the rows cover."""
    claims = []
    for points in _group(rows).values():
        ours = points.pop(OURS, None)
        points.pop(PRINTED, None)
        if ours is None:
            continue
        for name, row in points.items():
            claims.extend(_compare(ours, name, row))
    return claims


def _group(rows: Iterable[Row]) -> dict[tuple[str, str, int, float], dict[str, Row]]:
    points: dict[tuple[str, str, int, float], dict[str, Row]] = {}
    for row in rows:
        key = (row.figure, row.panel, row.dimension, row.budget)
        points.setdefault(key, {})[row.codec] = row
    return points


def _compare(ours: Row, name: str, other: Row) -> list[Claim]:
    where = f"{ours.figure}: {ours.panel}, {ours.dimension} coordinates, {ours.budget:g} bits"
    if ours.figure in ("gradient", "sparsification"):
        if ours.budget < LEAST_BUDGET:
            return []
        return [Claim(f"ECUQ's error is below that of {name}", where, ours.nmse, other.nmse)]
    if name == "ECK-Means":
        return [Claim("ECUQ's error is at most that of ECK-Means", where, ours.nmse, other.nmse)]
    if name != "ECQ" or ours.dimension != ECQ_DIMENSION:
        return []
    return [
        Claim("ECUQ's error is within 10 % of ECQ's", where, ours.nmse, ECQ_MARGIN * other.nmse),
        Claim(
            "ECUQ is at least 1000 times as fast as ECQ",
            where,
            ECQ_SPEED * ours.encode_seconds_least,
            other.encode_seconds_least,
        ),
    ]
