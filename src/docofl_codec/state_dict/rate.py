"""Which steps there are, and how much of a model stands for it when their bits are estimated.

The estimate itself is the core's (docs/design/state-dict.md, "Finding the step").
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["round_step", "sample_sizes"]

SAMPLE_SIZE = 32_768
SAMPLE_SHARE = 1 / 256
LEAST = 128  # values of a tensor


def sample_sizes(sizes: Sequence[int]) -> list[int]:
    """Return how many values of each tensor stand for it."""
    total = sum(sizes)
    most = max(SAMPLE_SIZE, int(total * SAMPLE_SHARE)) if total > 2 * SAMPLE_SIZE else total
    return [min(size, max(LEAST, round(most * size / max(total, 1)))) for size in sizes]


def round_step(step: float) -> float:
    """Return a step of 12 bits: its first thousands of multiples are float32 numbers."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(round(mantissa * 4096), exponent - 12)
