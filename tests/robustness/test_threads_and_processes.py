"""Rows 24 and 25: many threads at once, children of fork, torch before and after."""

from __future__ import annotations

import importlib.util
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from docofl_codec import (
    Codec,
    Ecuq,
    Eden,
    Identity,
    decode,
    decode_state_dict,
    eden,
    encode_state_dict,
    inspect,
)
from docofl_codec.ecuq import Quality
from tests.helpers.data import DATA_SETS, SEED
from tests.helpers.processes import can_fork_among_threads, run_python
from tests.state_dict.models import small_model

CODECS: list[Codec] = [
    Ecuq(bits=2),
    Ecuq(bits=6, budget="entropy"),
    Ecuq(bits=4, threads=2),
    Ecuq(bits=1.5, quality="best"),
    Ecuq(bits=1.5, coder="rans"),
    Ecuq(bits=3, quality="best", threads=2),
    Identity(),
    Eden(bits=1.5),
    Eden(bits=4, threads=2),
    Eden(bits=3, entropy_coded=True),
]

# Expressions for children, of a tensor x.
ENCODE = [
    "ecuq.encode(x, bits=2, threads=2)",
    'ecuq.encode(x, bits=2, quality="best", threads=2)',
    'encode_state_dict({"a": x, "b": x[:50_000]}, threads=2)',
    'encode_state_dict({"a": x, "b": x[:50_000]}, quality="best", threads=2)',
    "eden.encode(x, bits=2, seed=1, threads=2)",
    "eden.encode(x, bits=2, seed=1, entropy_coded=True, threads=2)",
]


def test_32_threads_at_once() -> None:
    """Row 24: each thread gets what it would get alone."""
    makers = list(DATA_SETS.values())
    work = [
        (CODECS[i % len(CODECS)], makers[i % len(makers)](20_000 + 3000 * i)) for i in range(32)
    ]
    blobs = [codec.encode(x, seed=SEED) for codec, x in work]
    results = [np.asarray(decode(blob)) for blob in blobs]
    barrier = threading.Barrier(32, timeout=30)

    def run(index: int) -> None:
        codec, x = work[index]
        barrier.wait()
        for _ in range(5):
            blob = codec.encode(x, seed=SEED)
            assert blob == blobs[index]
            assert inspect(blob).size == x.size
            assert np.array_equal(np.asarray(codec.decode(blob)), results[index])

    with ThreadPoolExecutor(32) as pool:
        for future in [pool.submit(run, index) for index in range(32)]:
            future.result(timeout=60)


@pytest.mark.parametrize("quality", ["fast", "best"])
def test_32_threads_with_state_dicts(quality: Quality) -> None:
    """Row 24: models of many tensors, each encoded with two threads of its own."""
    models = [small_model(seed) for seed in range(4)]

    def values(blob: bytes) -> list[bytes]:
        return [np.asarray(x).tobytes() for x in decode_state_dict(blob, threads=2).values()]

    blobs = [encode_state_dict(model, quality=quality, threads=1) for model in models]
    expected = [values(blob) for blob in blobs]
    barrier = threading.Barrier(32, timeout=30)

    def run(index: int) -> None:
        barrier.wait()
        blob = encode_state_dict(models[index % 4], quality=quality, threads=2)
        assert blob == blobs[index % 4]
        assert values(blob) == expected[index % 4]

    with ThreadPoolExecutor(32) as pool:
        for future in [pool.submit(run, index) for index in range(32)]:
            future.result(timeout=60)


@pytest.mark.parametrize("codec", [Ecuq(bits=3), Ecuq(quality="best"), Eden(bits=3)], ids=repr)
def test_threads_share_one_frame_and_one_tensor(codec: Codec) -> None:
    x = DATA_SETS["layered"](200_000)
    blob = codec.encode(x, seed=SEED)
    expected = np.asarray(decode(blob))
    with ThreadPoolExecutor(32) as pool:
        assert set(pool.map(lambda _: codec.encode(x, seed=SEED), range(64))) == {blob}
        decoded = pool.map(lambda _: np.asarray(decode(blob)).tobytes(), range(64))
        assert set(decoded) == {expected.tobytes()}


def test_threads_average_the_same_frames() -> None:
    x = DATA_SETS["normal"](100_000)
    codecs = [Eden(bits=1), Eden(bits=2.5), Eden(bits=3, entropy_coded=True)]
    blobs = [codec.encode(x, seed=seed) for seed, codec in enumerate(codecs * 2)]
    expected = np.asarray(eden.decode_mean(blobs)).tobytes()
    with ThreadPoolExecutor(32) as pool:
        means = pool.map(lambda _: np.asarray(eden.decode_mean(blobs)).tobytes(), range(64))
        assert set(means) == {expected}


FORK = """
import os
import signal
import sys
import threading
import numpy as np
from docofl_codec import decode, decode_state_dict, ecuq, eden, encode_state_dict

x = np.random.default_rng(0).standard_normal(300_000, dtype=np.float32)

def work():
    blob = ENCODE
    if blob[2] == 0xF1:
        return blob, decode(blob, threads=2).tobytes()
    return blob, [y.tobytes() for y in decode_state_dict(blob, threads=2).values()]

def in_child(function):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if function() else 1)
    assert os.waitpid(child, 0)[1] == 0, "the child did not finish, or with another result"
    return True
"""


@pytest.mark.parametrize("encode", ENCODE)
def test_fork_after_use(encode: str) -> None:
    """Row 25: threads of OpenMP do not survive a fork; the child must not wait for them."""
    run_python(
        FORK.replace("ENCODE", encode)
        + """
expected = work()
for _ in range(3):
    in_child(lambda: work() == work() == expected)
    in_child(lambda: work() == expected and in_child(lambda: work() == expected))
    assert work() == expected
"""
    )


@pytest.mark.parametrize("encode", ENCODE)
def test_fork_before_use(encode: str) -> None:
    run_python(
        FORK.replace("ENCODE", encode)
        + "in_child(lambda: work() == work())\nassert work() == work()"
    )


@can_fork_among_threads
@pytest.mark.parametrize("encode", ENCODE)
def test_fork_while_other_threads_work(encode: str) -> None:
    run_python(
        FORK.replace("ENCODE", encode)
        + """
expected = work()
done = threading.Event()

def keep_busy():
    while not done.is_set():
        assert work() == expected

threads = [threading.Thread(target=keep_busy) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(5):
    in_child(lambda: work() == expected)
done.set()
for thread in threads:
    thread.join()
"""
    )


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("order", ["import torch, docofl_codec", "import docofl_codec, torch"])
def test_torch_before_and_after(order: str) -> None:
    """Row 25: two copies of an OpenMP runtime in one process, used in turn and then forked."""
    run_python(
        f"""
{order}
import os, signal
import numpy as np
from docofl_codec import decode, decode_state_dict, ecuq, eden, encode_state_dict
x = torch.randn(300_000)
def work():
    y = (x * 2).sum()
    blobs = [{", ".join(ENCODE)}]
    for blob in blobs:
        tensors = (
            [decode(blob, threads=2)]
            if blob[2] == 0xF1
            else decode_state_dict(blob, threads=2).values()
        )
        assert all(isinstance(tensor, torch.Tensor) for tensor in tensors)
    return blobs
blobs = work()
assert blobs == work()
child = os.fork()
if child == 0:
    signal.alarm(20)
    os._exit(0 if [{", ".join(ENCODE)}] == blobs else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    )
