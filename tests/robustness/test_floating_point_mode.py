"""Row 15: neither import nor calls change how the process computes."""

from __future__ import annotations

import importlib.util

import pytest

from tests.helpers.processes import run_python

CHECK_MODE = """
import numpy as np

def check_mode():
    tiny = np.full(1000, 1e-40, np.float32)
    assert (tiny * np.float32(1.0) != 0).all(), "denormal operands are read as zero"
    small = np.full(1000, 1e-38, np.float32)
    assert (small * np.float32(0.1) != 0).all(), "denormal results are flushed"
    assert 5e-324 * 1.0 != 0 and 1e-308 * 0.1 != 0
    third = np.float32(1) / np.float32(3)
    assert third.tobytes() == bytes.fromhex("abaaaa3e"), "rounding is not to nearest"
    assert 1.0 + 2.0**-53 == 1.0 and 1.0 + 1.5 * 2.0**-53 == 1.0 + 2.0**-52

check_mode()
"""

CALLS = """
import threading
import docofl_codec
from docofl_codec import (
    Identity, decode_state_dict, ecuq, eden, encode_state_dict, inspect
)

check_mode()
x = np.random.default_rng(0).standard_normal(300_000, dtype=np.float32)
for tensor in (x, x * np.float32(1e-40), x.astype(np.float16), x.astype(np.float64)):
    for bits in (1, 2, 4, 12):
        blob = ecuq.encode(tensor, bits=bits, threads=4)
        check_mode()
        ecuq.decode(blob, threads=4)
        check_mode()
        inspect(blob)
    blob = ecuq.encode(tensor, bits=2, quality="best", threads=4)
    check_mode()
    ecuq.decode(blob, threads=4)
    check_mode()
    decode_state_dict(encode_state_dict({"x": tensor}, threads=4), threads=4)
    check_mode()
    for bits in (0.5, 1, 8):
        blob = eden.encode(tensor, bits=bits, seed=1, threads=4)
        check_mode()
        eden.decode(blob, threads=4)
        eden.decode_mean([blob], threads=4)
        check_mode()
    Identity().decode(Identity().encode(tensor))
    check_mode()
for level in docofl_codec.build_info()["isa_levels"]:
    docofl_codec._core.set_isa(level)
    ecuq.decode(ecuq.encode(x, bits=2))
    ecuq.decode(ecuq.encode(x, bits=2, quality="best"))
    eden.decode(eden.encode(x, bits=2, entropy_coded=True))
    check_mode()
thread = threading.Thread(target=check_mode)
thread.start()
thread.join()
print("unchanged")
"""


def test_mode_is_unchanged() -> None:
    assert run_python(CHECK_MODE + CALLS).strip() == "unchanged"


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_result_does_not_depend_on_the_mode_of_the_caller() -> None:
    """torch can flush denormals in the calling thread; nobody else may notice."""
    run_python(
        """
import numpy as np
import torch
from docofl_codec import ecuq, eden
x = (np.random.default_rng(0).standard_normal(5000) * 1e-40).astype(np.float32)

def work():
    blobs = [
        ecuq.encode(x, bits=8, threads=1),
        ecuq.encode(x, bits=2, quality="best", threads=1),
        eden.encode(x, bits=1, seed=1, threads=1),
        eden.encode(x, bits=8, seed=1, entropy_coded=True, threads=1),
    ]
    tensors = [
        *(ecuq.decode(blob, threads=1) for blob in blobs[:2]),
        *(eden.decode(blob, threads=1) for blob in blobs[2:]),
        eden.decode_mean(blobs[2:], threads=1),
    ]
    return blobs, [tensor.tobytes() for tensor in tensors]

blobs, values = work()
assert torch.set_flush_denormal(True)
blobs_then, values_then = work()
torch.set_flush_denormal(False)
assert blobs_then == blobs, "other bytes where the caller flushes denormals"
assert values_then == values, "other values where the caller flushes denormals"
"""
    )
