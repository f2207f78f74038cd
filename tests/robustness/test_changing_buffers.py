"""Row 12: memory that another thread changes during a call does no harm beyond a wrong result."""

from __future__ import annotations

from tests.helpers.processes import run_python

CHANGING_BLOB = """
import threading
import numpy as np
from docofl_codec import CodecError, Identity, decode, ecuq, eden

rng = np.random.default_rng(0)
x = rng.standard_normal(300_000, dtype=np.float32)
x[::1000] = 1e4
outcomes = set()
for encode in (
    Identity().encode,
    lambda x: ecuq.encode(x, bits=1),
    lambda x: ecuq.encode(x, bits=3),
    lambda x: ecuq.encode(x, bits=11),
    lambda x: ecuq.encode(x, bits=2, quality="best"),
    lambda x: ecuq.encode(x, bits=2, coder="auto"),
    lambda x: ecuq.encode(np.sign(x), bits=3),
    lambda x: eden.encode(x, bits=1.5, seed=1),
    lambda x: eden.encode(x, bits=3, seed=1, entropy_coded=True),
):
    good = np.frombuffer(encode(x), np.uint8)
    blob = bytearray(good)
    view = np.frombuffer(blob, np.uint8)
    done = threading.Event()

    def change():
        while not done.is_set():
            places = rng.integers(0, view.size, 200)
            places[:3] = rng.integers(0, 300, 3)
            view[places] = rng.integers(0, 256, places.size)
            view[:] = good

    thread = threading.Thread(target=change)
    thread.start()
    for _ in range(150):
        try:
            result = decode(blob, threads=2, framework="numpy", max_output_bytes=10_000_000)
            outcomes.add("decoded")
            assert np.isfinite(result).all()
            if good[4] == 2:
                eden.decode_mean([blob, good], threads=2, expected_shape=x.shape)
        except CodecError:
            outcomes.add("refused")
    done.set()
    thread.join()
    assert np.array_equal(decode(good), decode(bytes(good)))
print(sorted(outcomes))
"""

# Code words beyond the decoder's index are read twice; the payload flips between them and ones.
CHANGING_LONG_WORDS = """
import threading
import numpy as np
from docofl_codec import CodecError, decode, ecuq

rng = np.random.default_rng(0)
outcomes = set()
for bits in (2, 4, 6):
    good = np.frombuffer(ecuq.encode(rng.lognormal(0, 2, 300_000), bits=bits), np.uint8)
    blob = bytearray(good)
    view = np.frombuffer(blob, np.uint8)
    done = threading.Event()

    def change():
        while not done.is_set():
            view[2000:] = 255
            view[:] = good

    thread = threading.Thread(target=change)
    thread.start()
    for _ in range(500):
        try:
            assert np.isfinite(decode(blob, threads=2)).all()
            outcomes.add("decoded")
        except CodecError:
            outcomes.add("refused")
    done.set()
    thread.join()
print(sorted(outcomes))
"""

CHANGING_BASELINE = """
import threading
import numpy as np
from docofl_codec import CodecError, decode
from tests.helpers.hostile import BASELINE_IDS, SMALL_FRAMES

rng = np.random.default_rng(0)
outcomes = set()
for name, frame in SMALL_FRAMES.items():
    if frame[4] not in BASELINE_IDS:
        continue
    good = np.frombuffer(frame, np.uint8)
    blob = bytearray(good)
    view = np.frombuffer(blob, np.uint8)
    done = threading.Event()

    def change():
        while not done.is_set():
            view[rng.integers(8, view.size, 3)] = rng.integers(0, 256, 3)
            view[:] = good

    thread = threading.Thread(target=change)
    thread.start()
    for _ in range(200):
        try:
            result = decode(blob, framework="numpy", max_output_bytes=10_000_000)
            outcomes.add("decoded")
            assert np.isfinite(result.astype(np.float64)).all(), name
        except CodecError:
            outcomes.add("refused")
    done.set()
    thread.join()
print(sorted(outcomes))
"""

CHANGING_STATE_DICT = """
import threading
import numpy as np
from docofl_codec import CodecError, decode_state_dict, encode_state_dict, inspect_state_dict
from tests.state_dict.models import small_model

rng = np.random.default_rng(0)
outcomes = set()
for quality in ("fast", "best"):
    good = np.frombuffer(encode_state_dict(small_model(), bits=3, quality=quality), np.uint8)
    blob = bytearray(good)
    view = np.frombuffer(blob, np.uint8)
    done = threading.Event()

    def change():
        while not done.is_set():
            places = rng.integers(0, view.size, 3)
            places[0] = view.size - rng.integers(1, 900)
            view[places] = rng.integers(0, 256, places.size)
            view[:] = good

    thread = threading.Thread(target=change)
    thread.start()
    for _ in range(150):
        try:
            tensors = decode_state_dict(blob, threads=2, max_output_bytes=10_000_000)
            inspect_state_dict(blob)
            outcomes.add("decoded")
            assert set(np.unique(tensors["mask"].view(np.uint8))) <= {0, 1}
        except CodecError:
            outcomes.add("refused")
    done.set()
    thread.join()
    assert bytes(blob) == good.tobytes()
print(sorted(outcomes))
"""

CHANGING_TENSOR = """
import threading
import numpy as np
from docofl_codec import (
    CodecError, Ecuq, Eden, Identity, decode, decode_state_dict, ecuq, encode_state_dict
)

rng = np.random.default_rng(0)
good = rng.standard_normal(140_000, dtype=np.float32)
bad = np.array([np.nan, np.inf, -np.inf, 1e38, -1e-40, 0, 7e4], np.float32)
outcomes = set()
for values in (good, np.sign(good), np.zeros_like(good)):
    for dtype in (np.float32, np.float64, np.float16):
        x = values.astype(dtype)
        done = threading.Event()

        def change():
            while not done.is_set():
                places = rng.integers(0, x.size, 200)
                with np.errstate(over="ignore"):
                    x[places] = rng.choice(bad, places.size).astype(dtype)
                x[:] = values.astype(dtype)

        thread = threading.Thread(target=change)
        thread.start()
        for i in range(12):
            bits = (0.5, 2, 5, 12)[i % 4]
            budget = ("bytes", "bytes", "entropy")[i % 3]
            for encode in (
                Identity().encode,
                Ecuq(bits=bits, budget=budget, threads=2).encode,
                Ecuq(bits=bits, coder="auto", threads=2).encode,
                Ecuq(bits=bits, quality="best", threads=2).encode,
                lambda x: ecuq.encode(x, step=2.0**-bits, threads=2),
                lambda x: encode_state_dict({"x": x}, bits=bits, threads=2),
                Eden(bits=min(bits, 8), threads=2).encode,
                Eden(bits=max(bits, 2), entropy_coded=True, threads=2).encode,
            ):
                try:
                    blob = encode(x)
                except CodecError:
                    outcomes.add("refused")
                    continue
                try:
                    is_frame = blob[2] == 0xF1
                    restored = decode(blob) if is_frame else decode_state_dict(blob)["x"]
                    assert restored.shape == x.shape
                    outcomes.add("decoded")
                except CodecError:
                    outcomes.add("encoded to nonsense")
        done.set()
        thread.join()
        x[:] = values.astype(dtype)
        assert np.array_equal(Identity().decode(Identity().encode(x)), x)
print(sorted(outcomes))
"""

CHANGING_MODEL = """
import threading
import time
import numpy as np
from docofl_codec import CodecError, decode_state_dict, encode_state_dict

rng = np.random.default_rng(0)
size = 300_000
versions = [spread * rng.standard_normal(size, dtype=np.float32) for spread in (1, 0.7, 1.4)]
model = {f"weight{k}": versions[0].copy() for k in range(3)}
done = threading.Event()


def change():
    random = np.random.default_rng(1)
    while not done.is_set():
        for tensor in model.values():
            tensor[:] = versions[random.integers(3)]
        time.sleep(0.0003 * random.integers(1, 40))


thread = threading.Thread(target=change)
thread.start()
outcomes = set()
end = time.monotonic() + 4
try:
    while time.monotonic() < end:
        bits = rng.choice([1, 1.5, 2, 3, 4])
        try:
            blob = encode_state_dict(model, bits=bits)
        except CodecError:
            outcomes.add("refused")
            continue
        assert 8 * len(blob) <= bits * 3 * size
        decode_state_dict(blob)
        outcomes.add("decoded")
finally:
    done.set()
    thread.join()
print(sorted(outcomes))
"""


def test_a_blob_that_changes_while_it_is_decoded() -> None:
    """No crash: a tensor of finite values or a `CodecError`."""
    assert "decoded" in run_python(CHANGING_BLOB)


def test_long_words_that_change_while_they_are_decoded() -> None:
    assert "refused" in run_python(CHANGING_LONG_WORDS)


def test_a_baseline_that_changes_while_it_is_decoded() -> None:
    assert "decoded" in run_python(CHANGING_BASELINE)


def test_a_state_dict_that_changes_while_it_is_decoded() -> None:
    assert "decoded" in run_python(CHANGING_STATE_DICT)


def test_a_tensor_that_changes_while_it_is_encoded() -> None:
    """No crash: some bytes or a `CodecError`."""
    assert "decoded" in run_python(CHANGING_TENSOR)


def test_a_model_that_changes_between_passes() -> None:
    """Finite values of another spread: what is returned can be decoded, and keeps its budget."""
    assert "decoded" in run_python(CHANGING_MODEL)
