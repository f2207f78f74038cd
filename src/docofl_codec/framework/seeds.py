"""Independent seeds from names: the same run gives the same randomness, in any order of calls."""

from __future__ import annotations

import hashlib

__all__ = ["derive_seed"]


def derive_seed(run_seed: int, purpose: str, *numbers: int) -> int:
    """Return a 64-bit seed for one purpose, a round and a client, say.

    Examples
    --------
    >>> derive_seed(0, "correction", 3, 7) == derive_seed(0, "correction", 3, 7)
    True
    >>> derive_seed(0, "correction", 3, 7) == derive_seed(0, "update", 3, 7)
    False
    """
    text = "/".join([str(run_seed), purpose, *map(str, numbers)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
