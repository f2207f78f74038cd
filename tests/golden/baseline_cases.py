"""The golden frames of the baselines: a few of each codec, made of the same exact inputs."""

from __future__ import annotations

import ml_dtypes
import numpy as np

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
from tests.golden.cases import Case, bell, extremes, heavy

BASELINE_CASES: dict[str, Case] = {
    "hadamard": Case(lambda: bell(1007, 1), HadamardSQ(bits=2), {"bits": 2.0, "seed": 1}, 1),
    "hadamard-fraction": Case(lambda: heavy(500, 2), HadamardSQ(bits=2.6), {"seed": 2}, 2),
    "hadamard-extremes": Case(lambda: extremes(300, 3), HadamardSQ(bits=3), {"seed": 3}, 3),
    "hadamard-empty": Case(lambda: np.empty((2, 0), np.float32), HadamardSQ(), {"size": 0}, 4),
    "kashin": Case(lambda: heavy(1000, 4), KashinSQ(bits=2), {"codec": "kashin-sq"}, 2**64 - 1),
    "kashin-float64": Case(
        lambda: bell(100, 5).astype(np.float64), KashinSQ(bits=3.5), {"dtype": "float64"}, 5
    ),
    "qsgd-dense": Case(lambda: bell(1000, 6), QSGD(bits=3), {"codec": "qsgd"}, 6),
    "qsgd-sparse": Case(lambda: heavy(1000, 7), QSGD(levels=2), {"num_levels": 2}, 7),
    "qsgd-zeros": Case(lambda: np.zeros(20_000, np.float32), QSGD(levels=1), {"step": 0.0}, 8),
    "randk": Case(lambda: bell(1000, 8), RandK(fraction=0.1), {"num_kept": 100}, 9),
    "randk-biased": Case(
        lambda: bell(10, 9).astype(np.float16), RandK(fraction=0.5, unbiased=False), {}, 10
    ),
    "topk": Case(lambda: heavy(1000, 10), TopK(fraction=0.1), {"num_kept": 100}),
    "topk-all": Case(lambda: bell(9, 11).reshape(3, 3), TopK(fraction=1), {"num_kept": 9}),
    "topk-bfloat16": Case(
        lambda: bell(100, 12).astype(ml_dtypes.bfloat16), TopK(bits=2), {"dtype": "bfloat16"}
    ),
    "countsketch": Case(lambda: heavy(500, 13), CountSketch(bits=4), {"codec": "countsketch"}, 11),
    "countsketch-even": Case(lambda: extremes(300, 14), CountSketch(bits=8, rows=4), {}, 12),
    "ecq": Case(
        lambda: heavy(1000, 15), ECQ(bits=2, starts=2), {"codec": "ecq", "explicit_levels": True}
    ),
    "eckmeans": Case(
        lambda: bell(1000, 16), ECKMeans(bits=2), {"codec": "eckmeans", "explicit_levels": True}
    ),
}
