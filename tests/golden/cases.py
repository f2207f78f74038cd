"""The inputs of the golden frames, made of integers and IEEE divisions: the same on every machine.

NumPy does not promise that its random streams stay the same, hence a counter-based generator here
(splitmix64). Division and conversion to float32 are correctly rounded everywhere; no transcendental
function is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from docofl_codec import Codec, Ecuq, Eden, Identity

Array: TypeAlias = npt.NDArray[Any]


def random_integers(size: int, seed: int, bits: int) -> npt.NDArray[np.int64]:
    """Return `size` integers of `bits` bits."""
    with np.errstate(over="ignore"):
        z = np.arange(1, size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(seed) * np.uint64(0xD1B54A32D192ED03)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    result: npt.NDArray[np.int64] = (z >> np.uint64(64 - bits)).astype(np.int64)
    return result


def bell(size: int, seed: int) -> npt.NDArray[np.float32]:
    """Return bell-shaped values in (-2, 2): sums of four uniform ones, exact in float32."""
    total = sum(random_integers(size, 4 * seed + k, 16) for k in range(4))
    return ((np.asarray(total) - 2**17) / 2**16).astype(np.float32)


def heavy(size: int, seed: int) -> npt.NDArray[np.float32]:
    """Return quotients: a bell with a heavy tail."""
    divisor = random_integers(size, seed + 100, 12) + 16
    return (bell(size, seed).astype(np.float64) / divisor).astype(np.float32)


def choice(size: int, seed: int, weights: list[int]) -> npt.NDArray[np.float32]:
    """Return one of a few values each time, as often as its weight says."""
    ends = np.cumsum(weights)
    drawn = random_integers(size, seed, 30) % int(ends[-1])
    values = (np.arange(len(weights)) - 1) / 3
    return values.astype(np.float32)[np.searchsorted(ends, drawn, side="right")]


def with_outliers(size: int, seed: int) -> npt.NDArray[np.float32]:
    x = bell(size, seed)
    x[:: size // 6] = 497160.0
    return x


def layered(size: int, seed: int) -> npt.NDArray[np.float32]:
    """Return parts of different spread."""
    part = np.arange(size) // 16_384
    x: npt.NDArray[np.float32] = np.ldexp(bell(size, seed), -2 * (part * part % 4))
    return x


def two_clusters(size: int, seed: int) -> npt.NDArray[np.float32]:
    """Return values near 0 and, one in 16, near 1."""
    is_one = random_integers(size, seed, 4) == 0
    x: npt.NDArray[np.float32] = bell(size, seed) / np.float32(256) + is_one.astype(np.float32)
    return x


def extremes(size: int, seed: int) -> npt.NDArray[np.float32]:
    """Return values from one end of float32 to the other."""
    return (bell(size, seed).astype(np.float64) / 2 * float(np.finfo(np.float32).max)).astype(
        np.float32
    )


@dataclass(frozen=True)
class Case:
    """One golden frame: its input, its codec, and the features of the format that it shows."""

    make: Callable[[], Array]
    codec: Codec
    shows: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None

    def encode(self, codec: Codec | None = None) -> bytes:
        """Return the frame; `codec` overrides the case's own."""
        return (codec or self.codec).encode(self.make(), seed=self.seed)


def _bell(*shape: int, dtype: npt.DTypeLike = np.float32, seed: int = 1) -> Callable[[], Array]:
    return lambda: bell(int(np.prod(shape)), seed).reshape(shape).astype(dtype)


def _eden(
    make: Callable[[], Array], bits: float, seed: int, *, entropy_coded: bool = False
) -> Case:
    shows = {"codec": "eden", "bits": bits, "seed": seed, "entropy_coded": entropy_coded}
    return Case(make, Eden(bits=bits, entropy_coded=entropy_coded), shows, seed)


CASES: dict[str, Case] = {
    # Identity, every dtype.
    "identity-float32": Case(_bell(3, 5), Identity(), {"codec": "identity", "dtype": "float32"}),
    "identity-float64": Case(
        lambda: bell(7, 2).astype(np.float64) / 3, Identity(), {"dtype": "float64"}
    ),
    "identity-float16": Case(_bell(9, dtype=np.float16), Identity(), {"dtype": "float16"}),
    "identity-bfloat16": Case(
        _bell(9, dtype=ml_dtypes.bfloat16), Identity(), {"dtype": "bfloat16"}
    ),
    "identity-empty": Case(lambda: np.empty((2, 0), np.float64), Identity(), {"size": 0}),
    # Shapes.
    "empty": Case(lambda: np.empty((0, 3), np.float32), Ecuq(bits=2), {"shape": (0, 3)}),
    "scalar": Case(_bell(), Ecuq(bits=2), {"shape": ()}),
    "one-element": Case(_bell(1), Ecuq(bits=2), {"shape": (1,)}),
    "five-dimensions": Case(_bell(2, 1, 3, 4, 5), Ecuq(bits=3), {"shape": (2, 1, 3, 4, 5)}),
    # Dtypes.
    "float64": Case(_bell(1000, dtype=np.float64), Ecuq(bits=3), {"dtype": "float64"}),
    "float16": Case(_bell(1000, dtype=np.float16), Ecuq(bits=3), {"dtype": "float16"}),
    "bfloat16": Case(_bell(1000, dtype=ml_dtypes.bfloat16), Ecuq(bits=3), {"dtype": "bfloat16"}),
    # Explicit levels.
    "constant": Case(lambda: np.full(1000, 1 / 3, np.float32), Ecuq(bits=2), {"num_levels": 1}),
    "constant-blocks": Case(
        lambda: np.full(200_000, -0.0, np.float32), Ecuq(bits=2), {"num_levels": 1}
    ),
    "explicit-single": Case(
        lambda: choice(3000, 3, [1 + k for k in range(40)]),
        Ecuq(bits=8),
        {"explicit_levels": True, "tuple_size": 1},
    ),
    "explicit-pairs": Case(
        lambda: choice(5000, 4, [60, 9, 4, 1, 1]),
        Ecuq(bits=4),
        {"explicit_levels": True, "tuple_size": 2},
    ),
    "explicit-fours": Case(
        lambda: choice(5000, 5, [40, 3, 1]),
        Ecuq(bits=4),
        {"explicit_levels": True, "tuple_size": 4},
    ),
    "explicit-sixes": Case(
        lambda: choice(5000, 6, [9, 1]),
        Ecuq(bits=4),
        {"explicit_levels": True, "tuple_size": 6},
    ),
    "explicit-zeros": Case(
        lambda: np.array([-0.0, 0.0, 1.0], np.float32).repeat(700),
        Ecuq(bits=4),
        {"explicit_levels": True, "num_levels": 3},
    ),
    # Uniform levels.
    "one-level": Case(_bell(300), Ecuq(bits=0.1), {"num_levels": 1, "explicit_levels": False}),
    "fixed-width": Case(_bell(50), Ecuq(bits=5), {"coded_levels": 1, "raw_bits": 5}),
    "uniform-single": Case(
        _bell(3000), Ecuq(bits=4), {"explicit_levels": False, "tuple_size": 1, "raw_bits": 0}
    ),
    "uniform-pairs": Case(_bell(6000), Ecuq(bits=2), {"explicit_levels": False, "tuple_size": 2}),
    "uniform-fours": Case(
        lambda: bell(9000, 7), Ecuq(bits=0.4), {"explicit_levels": False, "tuple_size": 4}
    ),
    "uniform-sixes": Case(
        lambda: two_clusters(9000, 7), Ecuq(bits=0.4), {"explicit_levels": False, "tuple_size": 6}
    ),
    "raw-bits": Case(_bell(2500), Ecuq(bits=12), {"explicit_levels": False}),
    "outliers": Case(lambda: with_outliers(3000, 8), Ecuq(bits=4), {"num_outliers": 6}),
    "outliers-pairs": Case(lambda: with_outliers(6000, 8), Ecuq(bits=2), {}),
    "extremes": Case(lambda: extremes(1000, 9), Ecuq(bits=5), {"explicit_levels": False}),
    "subnormal": Case(
        lambda: (random_integers(1000, 10, 20) - 2**19).astype(np.float32) * np.float32(2.0**-149),
        Ecuq(bits=6),
        {"explicit_levels": False},
    ),
    # Streams and blocks.
    "streams-4095": Case(_bell(4095), Ecuq(bits=1.6), {"size": 4095}),
    "streams-4096": Case(_bell(4096), Ecuq(bits=1.6), {"size": 4096}),
    "streams-4097": Case(_bell(4097), Ecuq(bits=1.6), {"size": 4097}),
    "two-blocks": Case(lambda: heavy(65_536 + 1, 13), Ecuq(bits=0.6), {"size": 65_537}),
    "many-blocks": Case(lambda: heavy(140_000, 11), Ecuq(bits=0.5), {"size": 140_000}),
    "many-blocks-outliers": Case(lambda: with_outliers(140_000, 12), Ecuq(bits=0.8), {}),
    # Levels at the means of their values, of a few among many.
    "displaced-single": Case(
        lambda: heavy(8000, 40), Ecuq(bits=3), {"tuple_size": 1, "centroids": True}
    ),
    # Codes for parts of a tensor.
    "local-tables": Case(
        lambda: layered(270_000, 3), Ecuq(bits=0.3), {"num_tables": 2, "centroids": True}
    ),
    # The paper's rule.
    "entropy": Case(_bell(3000), Ecuq(bits=3, budget="entropy", tolerance=0.1), {}),
    # EDEN: together, these have words of every width.
    "eden-1-bit": _eden(_bell(1000), 1, seed=0),
    "eden-half-bit": _eden(lambda: heavy(2000, 14), 0.5, seed=1),
    "eden-2.5-bits": _eden(lambda: heavy(1000, 15), 2.5, seed=2),
    "eden-4.5-bits": _eden(_bell(500), 4.5, seed=2**63),
    "eden-6.5-bits": _eden(_bell(500), 6.5, seed=2**64 - 1),
    "eden-8-bits": _eden(_bell(1000), 8, seed=3),
    "eden-mse": Case(_bell(1000), Eden(bits=1, scale="mse"), {"bits": 1, "seed": 4}, seed=4),
    # EDEN, entropy-coded.
    "eden-coded": _eden(lambda: heavy(5003, 16), 3, seed=5, entropy_coded=True),
    "eden-coded-blocks": _eden(_bell(65_536 + 33), 1.5, seed=6, entropy_coded=True),
    "eden-coded-zeros": _eden(lambda: np.zeros(100, np.float32), 2, seed=7, entropy_coded=True),
    "eden-coded-tail": _eden(_bell(15), 2, seed=8, entropy_coded=True),
    # EDEN: shapes and dtypes.
    "eden-all-block-sizes": _eden(lambda: heavy(3 * 32_768 - 1, 17), 1, seed=9),
    "eden-empty": Case(
        lambda: np.empty((3, 0), np.float32), Eden(), {"codec": "eden", "shape": (3, 0)}, seed=10
    ),
    "eden-scalar": _eden(_bell(), 1, seed=11),
    "eden-float64": _eden(_bell(10, 31, dtype=np.float64), 2, seed=12),
    "eden-float16": _eden(_bell(10, 31, dtype=np.float16), 2, seed=13),
    "eden-bfloat16": _eden(_bell(10, 31, dtype=ml_dtypes.bfloat16), 2, seed=14),
    # EDEN: extreme values.
    "eden-zeros": _eden(lambda: np.zeros(1000, np.float32), 1, seed=15),
    "eden-zero-blocks": _eden(
        lambda: np.concatenate([np.zeros(512, np.float32), bell(256 + 1, 18)]), 0.375, seed=16
    ),
    "eden-extremes": _eden(lambda: extremes(1000, 19), 2, seed=17),
    "eden-subnormal": _eden(
        lambda: (random_integers(1000, 20, 12) - 2**11).astype(np.float32) * np.float32(2.0**-149),
        2,
        seed=18,
    ),
}
