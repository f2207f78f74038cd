"""The codecs that the contract binds: every test here runs once for each of them."""

from __future__ import annotations

import pytest

from docofl_codec import Codec, Ecuq, Eden, Identity
from docofl_codec.baselines import (
    ECQ,
    QSGD,
    CountSketch,
    ECKMeans,
    HadamardSQ,
    KashinSQ,
    RandK,
    TopK,
)

CODECS: dict[str, Codec] = {
    "identity": Identity(),
    **{f"ecuq-{bits}": Ecuq(bits=bits) for bits in (0.3, 1, 2, 4, 8, 16)},
    **{f"ecuq-entropy-{bits}": Ecuq(bits=bits, budget="entropy") for bits in (1.5, 4)},
    **{f"ecuq-rans-{bits}": Ecuq(bits=bits, coder="rans") for bits in (0.3, 2)},
    "ecuq-auto": Ecuq(bits=3, coder="auto"),
    **{f"ecuq-best-{bits}": Ecuq(bits=bits, quality="best") for bits in (0.3, 1, 2, 4, 8)},
    **{f"eden-{bits}": Eden(bits=bits) for bits in (0.5, 1, 2.5, 4, 8)},
    **{f"eden-coded-{bits}": Eden(bits=bits, entropy_coded=True) for bits in (2, 4)},
    **{f"hadamard-sq-{bits}": HadamardSQ(bits=bits) for bits in (1, 2.5)},
    "kashin-sq-2": KashinSQ(bits=2, iterations=4),
    **{f"qsgd-{bits}": QSGD(bits=bits) for bits in (0.5, 3)},
    "qsgd-levels": QSGD(levels=4),
    "randk": RandK(fraction=0.1),
    "topk": TopK(fraction=0.1),
    "topk-bits": TopK(bits=2),
    "countsketch": CountSketch(bits=4),
    "ecq": ECQ(bits=2, starts=1, multipliers=3, iterations=3),
    "eckmeans": ECKMeans(bits=2, iterations=10),
}


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest) -> Codec:
    """Every codec in turn."""
    return CODECS[request.param]
