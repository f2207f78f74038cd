"""What the image tasks share: pixels as bytes until a batch needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

__all__ = ["normalize"]


def normalize(
    mean: Sequence[float], deviation: Sequence[float], *, maximum: float = 255
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that makes stored n x channels x height x width pixels standard scores.

    Parameters
    ----------
    mean, deviation : sequence of float
        Of each channel, for pixels from 0 to 1.
    maximum : float
        The value of a white pixel.
    """
    center = torch.tensor(mean).mul_(maximum).view(1, -1, 1, 1)
    scale = torch.tensor(deviation).mul_(maximum).reciprocal_().view(1, -1, 1, 1)

    def prepare(pixels: torch.Tensor) -> torch.Tensor:
        return pixels.to(torch.float32).sub_(center).mul_(scale)

    return prepare
