"""Row 20 with real memory: 2.2 thousand million coordinates, in a budget of bytes."""

from __future__ import annotations

import pytest

from tests.helpers.processes import LIMIT_MEMORY, can_limit_memory, run_python

# Every block of the tensor is another part of some values, so that a block at a wrong place shows.
HUGE = (
    LIMIT_MEMORY
    + """
import time
import numpy as np
from docofl_codec import Ecuq, Eden, inspect
from docofl_codec.reference.eden import theory_nmse

SIZE, BLOCK = 2_200_000_000, 1 << 22
MIB = 1 << 20
codec = CODEC
base = np.random.default_rng(20).standard_normal(2 * BLOCK, dtype=np.float32).astype(np.float16)


def block(number):
    start = number * 0x9E3779B1 % BLOCK
    return base[start : start + min(BLOCK, SIZE - number * BLOCK)]


def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) << 10


codec.decode(codec.encode(base, seed=1))
tensor_bytes, frame_bytes = 2 * SIZE, int(codec.bits * SIZE / 8)
before = peak()
# Stacks and arenas of threads take addresses, not memory.
limit_memory(tensor_bytes + frame_bytes + 1024 * MIB)
x = np.empty(SIZE, np.float16)
blocks = range(-(-SIZE // BLOCK))
for number in blocks:
    x[number * BLOCK : (number + 1) * BLOCK] = block(number)
start = time.perf_counter()
blob = codec.encode(x, seed=1)
encode_seconds = time.perf_counter() - start
encode_peak = peak() - before
assert 8 * len(blob) <= codec.bits * SIZE + EXTRA_BITS, len(blob)
del x
start = time.perf_counter()
y = codec.decode(blob)
decode_seconds = time.perf_counter() - start
assert (y.dtype, y.shape) == (np.float16, (SIZE,))

info = inspect(blob)
total = 0.0
for number in blocks:
    expected = block(number).astype(np.float32)
    error = np.abs(y[number * BLOCK : (number + 1) * BLOCK] - expected)
    if info.step is not None:
        steps = 8 if info.dependent else 1.01 if info.centroids else 0.51
        assert error.max() <= steps * info.step + 0.005, number
    else:
        nmse = float(error @ error / (expected @ expected))
        assert abs(nmse / theory_nmse(codec.bits) - 1) < 0.05, number
    total += float(error @ error)
most = max(encode_peak, peak() - before)
assert most <= tensor_bytes + frame_bytes + 256 * MIB, most
print(
    f"{SIZE} coordinates, {codec}: {len(blob)} bytes, mean squared error {total / SIZE:.4g}, "
    f"encode {encode_seconds:.1f} s, decode {decode_seconds:.1f} s, tensor {tensor_bytes // MIB} "
    f"MiB, frame {len(blob) // MIB} MiB, peak {most // MIB} MiB"
)
"""
)


@can_limit_memory
@pytest.mark.huge
@pytest.mark.parametrize(
    ("codec", "extra_bytes"),
    [
        ("Ecuq(bits=2)", 74),
        ("Ecuq(bits=1, quality='best')", 74),
        ("Eden(bits=1)", 186 + 6 * (2_200_000_000 // 32_768 + 11)),
    ],
)
def test_more_coordinates_than_31_bits_can_count(codec: str, extra_bytes: int) -> None:
    code = HUGE.replace("CODEC", codec).replace("EXTRA_BITS", str(8 * extra_bytes))
    print("\n" + run_python(code, timeout=3600), end="")
