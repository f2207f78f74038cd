"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = [
    "format_bytes",
    "format_percent",
    "format_ratio",
    "format_seconds",
    "format_spread",
    "nice_step",
    "time_unit",
]


def format_bytes(value: float) -> str:
    """Write a number of bytes with a decimal prefix.

    Examples
    --------
    >>> format_bytes(0), format_bytes(950), format_bytes(1_234_000), format_bytes(2e10)
    ('0 B', '950 B', '1.23 MB', '20 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def format_seconds(value: float) -> str:
    """Write a time; a dash for NaN.

    Examples
    --------
    >>> format_seconds(0.05), format_seconds(12.25), format_seconds(600), format_seconds(7200)
    ('0.05 s', '12.2 s', '10 min', '2 h')
    """
    if math.isnan(value):
        return "–"
    name, size = time_unit(value)
    return f"{value / size:.3g} {name}"


def time_unit(value: float) -> tuple[str, int]:
    """Return the name and the seconds of the unit that a time is best written in."""
    if abs(value) < 120:
        return "s", 1
    return ("min", 60) if abs(value) < 7200 else ("h", 3600)


def nice_step(largest: float) -> float:
    """Return a step of 1, 2 or 5 times a power of ten that cuts a range into 4 to 10 parts.

    Examples
    --------
    >>> nice_step(3.7), nice_step(90), nice_step(0)
    (0.5, 20.0, 1.0)
    """
    if not largest > 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(largest / 4))
    return next(step * power for step in (5, 2, 1) if largest >= 4 * step * power)


def format_percent(value: float) -> str:
    """Write a share as a percentage; a dash for NaN.

    Examples
    --------
    >>> format_percent(0.8231), format_percent(float("nan"))
    ('82.31 %', '–')
    """
    return "–" if math.isnan(value) else f"{100 * value:.2f} %"


def format_spread(values: Sequence[float]) -> str:
    """Write the mean of shares and, of several, half of what lies between least and largest.

    Those that are NaN do not count.

    Examples
    --------
    >>> format_spread([0.82, float("nan")]), format_spread([0.81, 0.83]), format_spread([])
    ('82.00 %', '82.00 ± 1.00 %', '–')
    """
    known = [value for value in values if not math.isnan(value)]
    if len(known) < 2:
        return format_percent(known[0]) if known else "–"
    mean = sum(known) / len(known)
    return f"{100 * mean:.2f} ± {50 * (max(known) - min(known)):.2f} %"


def format_ratio(whole: float | None, part: float) -> str:
    """Write how many times smaller a part is; a dash where that is unknown.

    Examples
    --------
    >>> format_ratio(100, 12.5), format_ratio(None, 3), format_ratio(100, 0)
    ('8.00 ×', '–', '–')
    """
    return "–" if not whole or not part else f"{whole / part:.2f} ×"
