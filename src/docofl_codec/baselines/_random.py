"""The format's random numbers (docs/format.md, section 4.1), for NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["random_word", "random_words", "uniforms"]

_MASK = (1 << 64) - 1
_FACTORS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def random_word(key: int, counter: int) -> int:
    """Return one word of 64 bits."""
    z = (key + (counter + 1) * _FACTORS[0]) & _MASK
    z = (z ^ z >> 30) * _FACTORS[1] & _MASK
    z = (z ^ z >> 27) * _FACTORS[2] & _MASK
    return z ^ z >> 31


def random_words(key: int, begin: int, end: int) -> npt.NDArray[np.uint64]:
    """Return the words of the counters begin … end - 1; all of a key's words are different."""
    z = np.arange(begin + 1, end + 1, dtype=np.uint64)
    z *= np.uint64(_FACTORS[0])
    z += np.uint64(key)
    for shift, factor in ((30, _FACTORS[1]), (27, _FACTORS[2])):
        z ^= z >> np.uint64(shift)
        z *= np.uint64(factor)
    z ^= z >> np.uint64(31)
    return z


def uniforms(key: int, begin: int, end: int) -> npt.NDArray[np.float64]:
    """Return numbers from [0, 1), multiples of 2^-53."""
    numbers: npt.NDArray[np.float64] = (random_words(key, begin, end) >> np.uint64(11)) * 2.0**-53
    return numbers
