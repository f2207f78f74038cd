"""Row 26: Ctrl-C ends a long encode with `KeyboardInterrupt`, and nothing is left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.helpers.processes import child_environment, run_python

# Children of a background job inherit that SIGINT is ignored; Python then raises nothing.
LISTEN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""

LOOP = (
    LISTEN
    + """
import sys
import numpy as np
from docofl_codec import ecuq, eden, encode_state_dict

x = np.random.default_rng(0).standard_normal(1 << 23, dtype=np.float32)
print("ready", flush=True)
try:
    while True:
        {encode}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(42)
"""
)


@pytest.mark.parametrize(
    "encode",
    [
        'ecuq.encode(x, bits=8, budget="entropy", threads=1)',
        'ecuq.encode(x, bits=8, budget="entropy", threads=2)',
        'ecuq.encode(x, bits=2, quality="best", threads=2)',
        'encode_state_dict({"x": x, "y": x[::2].copy()}, bits=3, threads=2)',
        "eden.encode(x, bits=3, threads=2)",
    ],
)
def test_interrupt_from_outside(encode: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", LOOP.format(encode=encode)],
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.3)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=10)
        assert (output, child.returncode) == ("interrupted\n", 42), errors
    finally:
        child.kill()
        child.wait()


ONE_CALL = (
    LISTEN
    + """
import os, threading, time
import numpy as np
from docofl_codec import decode, decode_state_dict, ecuq, eden, encode_state_dict

x = np.random.default_rng(0).standard_normal(1 << {log2_size}, dtype=np.float32)
{prepare}

def work():
    return {work}

# A busy machine may hold up a call or the signal; one call of a few must end early.
for _ in range(6):
    start = time.perf_counter()
    work()
    whole = time.perf_counter() - start
    assert whole > 0.05, f"{{whole:.2f}} s are not long enough to be interrupted"
    timer = threading.Timer(whole / 8, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.perf_counter()
    try:
        work()
        timer.join()
        time.sleep(10)
    except KeyboardInterrupt:
        took = time.perf_counter() - start
    if took < 0.6 * whole:
        break
else:
    raise AssertionError(f"{{took:.2f}} of {{whole:.2f}} s")
small = x[:70_000]
assert ecuq.encode(small, bits=2) == ecuq.encode(small.copy(), bits=2)
assert eden.encode(small, seed=1) == eden.encode(small.copy(), seed=1)
"""
)


def check_one_call(work: str, *, log2_size: int, prepare: str = "") -> None:
    """Check that the call itself hears the signal, not only what comes after it."""
    run_python(ONE_CALL.format(work=work, log2_size=log2_size, prepare=prepare))


@pytest.mark.parametrize("threads", [1, 2])
def test_one_call_ends_before_its_time(threads: int) -> None:
    check_one_call(f'ecuq.encode(x, bits=17, budget="entropy", threads={threads})', log2_size=22)


@pytest.mark.parametrize("threads", [1, 2])
def test_one_call_of_the_best_quality_ends_before_its_time(threads: int) -> None:
    """The search in a sample, a tenth of a second, is not interrupted."""
    check_one_call(f'ecuq.encode(x, bits=2, quality="best", threads={threads})', log2_size=24)


def test_one_decode_of_the_best_quality_ends_before_its_time() -> None:
    check_one_call(
        "decode(blob, threads=1)",
        log2_size=25,
        prepare='blob = ecuq.encode(x, bits=1, quality="best")',
    )


@pytest.mark.parametrize(
    "work",
    [
        "encode_state_dict(model, threads=1)",
        'encode_state_dict(model, quality="best", threads=1)',
        "decode_state_dict(blob, threads=1)",
    ],
)
def test_one_state_dict_ends_before_its_time(work: str) -> None:
    """Many tensors, and so many calls of the core."""
    check_one_call(
        work,
        log2_size=26,
        prepare="""
model = {str(i): x[i::20].copy() for i in range(20)}
blob = encode_state_dict(model, bits=9)
""",
    )


@pytest.mark.parametrize(
    ("work", "prepare"),
    [
        # Zeros that were never touched take no memory.
        (
            "eden.encode(zeros, bits=0.1, seed=1, threads=1)",
            "zeros = np.zeros(1 << 28, np.float16)",
        ),
        (
            "eden.decode_mean(blobs, threads=1)",
            "blobs = [eden.encode(x, bits=1, seed=seed) for seed in range(80)]",
        ),
    ],
)
def test_one_call_of_eden_ends_before_its_time(work: str, prepare: str) -> None:
    check_one_call(work, log2_size=21, prepare=prepare)


def test_handlers_that_do_not_raise_do_not_stop_the_call() -> None:
    run_python(
        """
import os, signal, threading
import numpy as np
from docofl_codec import ecuq

heard = []
signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
x = np.random.default_rng(0).standard_normal(1 << 22, dtype=np.float32)
expected = ecuq.encode(x, bits=8)
done = threading.Event()

def disturb():
    while not done.wait(0.01):
        os.kill(os.getpid(), signal.SIGUSR1)

thread = threading.Thread(target=disturb)
thread.start()
for _ in range(5):
    assert ecuq.encode(x, bits=8) == expected
done.set()
thread.join()
assert heard
"""
    )
