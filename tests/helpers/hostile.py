"""What may happen when hostile bytes are decoded, and small frames of every kind to start from."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from docofl_codec import CodecError, Identity, decode, ecuq, eden, inspect
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
from docofl_codec.reference import decode_frame
from tests.helpers.data import SEED, Floats, few_values, normal, outliers
from tests.helpers.frames import (
    EcuqPayload,
    code_table,
    outlier,
    pack_bits,
    stream_sizes,
    uniform_levels,
)
from tests.helpers.rans_frames import RansPayload, rans_outlier, rans_stream, rans_table

BASELINE_IDS = range(16, 24)


def decode_or_refuse(blob: bytes) -> bool:
    """Decode; return False for a `CodecError` and check whatever else comes back."""
    try:
        x = np.asarray(decode(blob, framework="numpy", threads=1))
    except CodecError:
        return False
    assert x.shape == inspect(blob).shape
    assert np.isfinite(x.astype(np.float64)).all()
    return True


def agrees_with_reference(blob: bytes) -> bool:
    """Tell whether core and reference both refuse a frame, or decode it to the same bits.

    The reference leaves the baselines out.
    """
    if len(blob) > 4 and blob[4] in BASELINE_IDS:
        return True
    try:
        core = np.asarray(decode(blob, framework="numpy", threads=1))
    except CodecError:
        core = None
    try:
        reference, info = decode_frame(blob)
    except ValueError:
        return core is None
    if core is None:
        return False
    if info["dtype"] == "bfloat16":
        core = core.astype(np.float32)
    return core.tobytes() == reference.tobytes() and core.shape == reference.shape


def _with_outliers() -> bytes:
    """Three coordinates, the window is levels 4 and 5 of ten, two are outside."""
    return EcuqPayload(
        mode=2,
        levels=uniform_levels(0, 10, 10, base=4),
        directory=stream_sizes(1) + b"\x02\0\0\0",
        blocks=b"\x02" + outlier(0, 3) + outlier(2, 6),
    ).frame()


def _with_four_streams() -> bytes:
    """A block of 4,096 coordinates in six-tuples of two levels: 683 words of one bit."""
    words = [171, 171, 171, 170]
    sizes = [-(-count // 8) for count in words]
    return EcuqPayload(
        tuple_size=6,
        table=code_table([1, 1, *[0] * 62]),
        directory=stream_sizes(*sizes),
        blocks=bytes(sum(sizes)),
    ).frame(4096)


def _skewed(size: int) -> Floats:
    """Values of one sign, so that levels are not mirrored, and two that are far away."""
    x = np.exp(normal(size))
    x[[3, 700]] = (-4e5, 2e6)
    return x


def _with_rans_pairs() -> bytes:
    """Five coordinates in pairs, displaced levels, two tables for one segment."""
    return RansPayload(
        mode=4,
        tuple_size=2,
        displacements=bytes([5, 0x80]),
        tables=rans_table([1000, 1000, 1000, 1096]) + rans_table([4000, 32, 32, 32]),
        num_tables=2,
        choices=b"\x01",
        stream=rans_stream([4000, 32, 32, 32], [0, 0, 0]),
    ).frame(5)


def _with_transform() -> bytes:
    """Two runs and two values more, an outlier among the coefficients and one among the values."""
    return RansPayload(
        mode=25,
        step=0.5,
        base=-2,
        stream=rans_stream([3000, 1096], [0, 1] * 17),
        outliers=rans_outlier(9, 2.5),
        spikes=rans_outlier(30, -7.0),
    ).frame(34)


SMALL_FRAMES: dict[str, bytes] = {
    "identity": Identity().encode(normal(6).reshape(2, 3)),
    "identity float64": Identity().encode(normal(3).astype(np.float64)),
    "constant": ecuq.encode(np.full(7, 1.5, np.float32), bits=2),
    "empty": ecuq.encode(np.empty((0, 3), np.float32), bits=2),
    "scalar": ecuq.encode(normal(1).reshape(()), bits=2),
    "fixed width": ecuq.encode(normal(20), bits=5),
    "coded": ecuq.encode(normal(300), bits=2.2),
    "coded float16": ecuq.encode(normal(300).astype(np.float16), bits=2.2),
    "coded bfloat16": ecuq.encode(normal(300).astype(ml_dtypes.bfloat16), bits=2.2),
    "raw bits": ecuq.encode(normal(300) ** 3, bits=6),
    "pairs": EcuqPayload(tuple_size=2, table=code_table([2] * 4), blocks=pack_bits("0110")).frame(),
    "explicit": ecuq.encode(np.round(few_values(200)), bits=12),
    "sparse": ecuq.encode(outliers(300), bits=4),
    "outliers": _with_outliers(),
    "four streams": _with_four_streams(),
    "best": ecuq.encode(normal(1030), bits=0.4, quality="best"),
    "best with outliers": ecuq.encode(_skewed(1100), bits=0.6, quality="best"),
    "rans coder": ecuq.encode(normal(1030), bits=0.4, coder="rans"),
    "rans coder with outliers": ecuq.encode(_skewed(1100), bits=3, coder="rans"),
    "best float16": ecuq.encode(normal(1024).astype(np.float16), bits=0.5, quality="best"),
    "rans": RansPayload(mode=3).frame(),
    "rans pairs": _with_rans_pairs(),
    "rans transform": _with_transform(),
    "rans outliers": RansPayload(mode=9, outliers=rans_outlier(1, 2.5)).frame(),
    "eden": eden.encode(normal(16 + 3), bits=1, seed=SEED),
    "eden empty": eden.encode(np.empty((0, 3), np.float32), seed=SEED),
    "eden tail": eden.encode(normal(5), bits=2, seed=SEED),
    "eden part of a bit": eden.encode(normal(80).astype(ml_dtypes.bfloat16), bits=0.4, seed=SEED),
    "eden two widths": eden.encode(normal(49).astype(np.float16), bits=2.5, seed=SEED),
    "eden wide": eden.encode(normal(33), bits=8, seed=SEED),
    "eden coded": eden.encode(normal(100), bits=2, seed=SEED, entropy_coded=True),
    "eden coded tail": eden.encode(normal(3), bits=2, seed=SEED, entropy_coded=True),
    "hadamard": HadamardSQ(bits=2.3).encode(normal(52), seed=SEED),
    "hadamard empty": HadamardSQ().encode(np.empty((0, 3), np.float32), seed=SEED),
    "kashin": KashinSQ(bits=2).encode(normal(60).astype(np.float16), seed=SEED),
    "qsgd": QSGD(bits=3).encode(normal(60), seed=SEED),
    "qsgd sparse": QSGD(levels=1).encode(normal(100).astype(ml_dtypes.bfloat16), seed=SEED),
    "randk": RandK(fraction=0.2).encode(normal(60), seed=SEED),
    "topk": TopK(fraction=0.2).encode(normal(60), seed=SEED),
    "topk all": TopK(fraction=1).encode(normal(7).astype(np.float64), seed=SEED),
    "countsketch": CountSketch(bits=8).encode(normal(40), seed=SEED),
    "filler": TopK(fraction=0).encode(normal(8192 * 20 + 1), seed=SEED),
    "ecq": ECQ(bits=2, starts=1).encode(normal(100)),
    "eckmeans": ECKMeans(bits=2).encode(normal(100)),
}
