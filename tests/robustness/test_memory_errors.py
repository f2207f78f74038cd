"""Row 10 from Python: where memory runs out, ``MemoryError``, and the next call works.

cpp/tests/test_allocation_failure.cpp lets every single allocation of the core fail.
"""

from __future__ import annotations

import pytest

from tests.helpers.processes import LIMIT_MEMORY, can_limit_memory, run_python

# glibc: memory that was freed is not kept for the next call.
RETURN_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TOP_PAD_": "0"}

PREPARE = """
import numpy as np
from docofl_codec import decode, ecuq, eden

size = 1 << 23
x = np.ones(size, np.float32)
x[::3] = np.linspace(-1, 1, x[::3].size)
frames = {name: encode(x[: size // 4]) for name, encode in {
    "fast": lambda x: ecuq.encode(x, bits=6, threads=1),
    "best": lambda x: ecuq.encode(x, bits=1, quality="best", threads=1),
    "rans": lambda x: ecuq.encode(x, bits=1, coder="rans", threads=1),
    "eden": lambda x: eden.encode(x, bits=4, seed=1, threads=1),
    "coded": lambda x: eden.encode(x, bits=2, seed=1, entropy_coded=True, threads=1),
}.items()}
"""

CALLS = {
    "fast": "ecuq.encode(x, bits=16, threads=1)",
    "best": "ecuq.encode(x, bits=16, quality='best', threads=1)",
    "entropy": "ecuq.encode(x, bits=8, budget='entropy', threads=1)",
    "eden": "eden.encode(x, bits=8, seed=1, threads=1)",
    "eden, coded": "eden.encode(x, bits=4, seed=1, entropy_coded=True, threads=1)",
    "decode fast": "decode(frames['fast'], threads=1)",
    "decode best": "decode(frames['best'], threads=1)",
    "decode eden": "decode(frames['eden'], threads=1)",
    "decode eden, coded": "decode(frames['coded'], threads=1)",
}


@can_limit_memory
@pytest.mark.parametrize("name", CALLS)
def test_memory_runs_out(name: str) -> None:
    run_python(
        PREPARE
        + LIMIT_MEMORY
        + f"""
limit_memory(4 << 20)
try:
    {CALLS[name]}
except MemoryError:
    pass
else:
    raise AssertionError("expected MemoryError")
small = x[:1000]
restored = np.asarray(decode(ecuq.encode(small, bits=8, threads=1), threads=1))
assert np.abs(restored - small).max() < 0.1
""",
        env=RETURN_MEMORY,
    )
