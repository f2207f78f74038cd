"""The codecs that the contract binds: every test here runs once for each of them."""

from __future__ import annotations

import pytest

from docofl_codec import Codec, Ecuq, Eden, Identity

CODECS: dict[str, Codec] = {
    "identity": Identity(),
    **{f"ecuq-{bits}": Ecuq(bits=bits) for bits in (0.3, 1, 2, 4, 8, 16)},
    **{f"ecuq-entropy-{bits}": Ecuq(bits=bits, budget="entropy") for bits in (1.5, 4)},
    **{f"eden-{bits}": Eden(bits=bits) for bits in (0.5, 1, 2.5, 4, 8)},
    **{f"eden-coded-{bits}": Eden(bits=bits, entropy_coded=True) for bits in (2, 4)},
}


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest) -> Codec:
    """Every codec in turn."""
    return CODECS[request.param]
