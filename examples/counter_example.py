"""Why weights should not be compressed directly: the counter-example of the paper's appendix A.

The function f(w) = ((w - 1)² + max(0, w - 1)²) / 2 is convex and has its minimum at 1, here summed
over many coordinates. Gradient descent whose gradients are taken at compressed weights settles
elsewhere, although the compression is unbiased: the gradient is not linear, so that errors do not
average out. With an anchor and a correction the error shrinks along with the steps, and the minimum
is reached.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from docofl_codec import Ecuq, Eden, Identity
from docofl_codec.framework import SGD, Server, UniformParticipation, run
from docofl_codec.framework.server import Downlink

Floats = npt.NDArray[np.float32]

SIZE = 4096
STEP_SIZE = 0.1
ROUNDS = 400


def negative_gradient(_client: int, _round: int, weights: Floats) -> Floats:
    """Return -∇f."""
    step: Floats = (1 - weights) - np.maximum(0, weights - 1)
    return step


def descend(downlink: Downlink, *, exact_anchors: bool = False) -> Floats:
    """Return the weights after gradient descent through a downlink of one bit a round."""
    start = np.random.default_rng(0).normal(size=SIZE)
    server = Server(
        start,
        UniformParticipation(10, 10, lead=5),
        anchor_codec=Identity() if exact_anchors else Ecuq(bits=4),
        correction_codec=Eden(bits=1),
        update_codec=Identity(),
        downlink=downlink,
        optimizer=SGD(lr=STEP_SIZE),
    )
    for _ in run(server, negative_gradient, ROUNDS):
        pass
    return server.weights


def main() -> None:
    """Print how far each way ends from the minimum."""
    for name, weights in {
        "1 bit of the weights": descend("direct"),
        "1 bit of the correction, exact anchors": descend("docofl", exact_anchors=True),
        "1 bit of the correction, 4-bit anchors": descend("docofl"),
    }.items():
        distance = np.abs(weights - 1).mean()
        print(f"{name:40} mean |w - 1| = {distance:.6f}, mean w = {weights.mean():.4f}")


if __name__ == "__main__":
    main()
