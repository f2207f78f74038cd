"""Files are replaced whole or not at all, and need little memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docofl_codec import CodecError, InvalidInputError, files
from docofl_codec._files import replacing
from tests.helpers.processes import INTERRUPTIBLE_DOCOFL


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    x = np.random.default_rng(0).normal(size=(3, 50_000)).astype(np.float32)
    files.save(good, {"a": x, "b": x + 1})
    x = x + 0
    x[2, 3] = np.nan
    files.save(bad, {"a": np.array(x), "b": x + 1})
    out = tmp_path / "out.docofl"
    files.encode_file(good, out)
    before = out.read_bytes()
    with pytest.raises(InvalidInputError, match="tensor 'a'"):
        files.encode_file(bad, out)
    assert out.read_bytes() == before
    out.write_bytes(before[:-200] + bytes(100) + before[-100:])
    copy = tmp_path / "copy.npz"
    copy.write_bytes(b"old")
    with pytest.raises(ValueError, match="tensor"):
        files.decode_file(out, copy)
    assert copy.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bad.npz",
        "copy.npz",
        "good.npz",
        "out.docofl",
    ]


def test_a_write_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def write() -> None:
        with replacing(path) as file:
            file.write(b"half of the new")
            raise OSError("disk is full")

    with pytest.raises(OSError, match="full"):
        write()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """A limit on the size of files stands for it."""
    files.save(tmp_path / "m.npz", {"w": np.random.default_rng(0).normal(size=(400, 500))})
    out = tmp_path / "m.docofl"
    out.write_bytes(b"old")
    code = (
        "import resource, signal, sys\n"
        "from docofl_codec.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "sys.exit(main(['encode', 'm.npz']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("docofl: ")
    assert "Traceback" not in done.stderr
    assert out.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2


def test_symbolic_links_and_modes_survive(tmp_path: Path) -> None:
    real, link = tmp_path / "real.npz", tmp_path / "link.npz"
    files.save(real, {"x": np.zeros(3)})
    link.symlink_to(real.name)
    files.save(link, {"x": np.ones(3)})
    assert link.is_symlink()
    assert np.array_equal(np.asarray(files.load(real)["x"]), np.ones(3))
    umask = os.umask(0)
    os.umask(umask)
    assert real.stat().st_mode & 0o777 == 0o666 & ~umask
    real.chmod(0o600)
    files.save(link, {"x": np.zeros(3)})
    assert real.stat().st_mode & 0o777 == 0o600


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link.npz"
    os.mkfifo(pipe)
    link.symlink_to(pipe.name)
    with pytest.raises(FileExistsError, match="pipe"):
        files.save(link, {"x": np.zeros(3)})
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.npz", "pipe"]


def test_what_cannot_be_read_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "model.npz", tmp_path / "model.docofl"
    files.save(source, {"x": np.zeros(3)})
    target.write_bytes(b"old")

    def write(_source: object, sink: Any, **_options: object) -> None:
        sink.write(b"no state dict")

    monkeypatch.setattr(files, "write_state_dict", write)
    with pytest.raises(CodecError):
        files.encode_file(source, target)
    with pytest.raises(CodecError):
        files.save(target, {"x": np.zeros(3)})
    assert target.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_interrupt_leaves_the_old_file(tmp_path: Path) -> None:
    source, out = tmp_path / "m.npy", tmp_path / "m.docofl"
    np.save(source, np.random.default_rng(0).normal(size=(4000, 4000)).astype(np.float32))
    out.write_bytes(b"old")
    command = [*INTERRUPTIBLE_DOCOFL, "encode", str(source), "--bits", "9"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(tmp_path.glob("*.new")):
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("it was faster")
    assert process.returncode == 130
    assert "Traceback" not in complaint
    assert out.read_bytes() == b"old"
    assert not list(tmp_path.glob("*.new"))


MEASURE = """
import resource, sys
from docofl_codec import files
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
files.encode_file("small.safetensors", "small.docofl", bits=4)
files.decode_file("small.docofl", "small2.safetensors")
before = peak()
files.encode_file("m.safetensors", "m.docofl", bits=4)
middle = peak()
files.decode_file("m.docofl", "m2.safetensors")
print(middle - before, peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_memory_is_that_of_the_largest_tensor(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    largest = 8 << 20
    model: dict[str, Any] = {
        f"w{number}": rng.normal(size=(2048, largest // 4 // 2048)).astype(np.float32)
        for number in range(12)
    }
    files.save(tmp_path / "m.safetensors", model)
    files.save(tmp_path / "small.safetensors", {"w": model["w0"][:200], "v": model["w1"][:200]})
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True
    )
    encode, decode = map(int, done.stdout.split())
    assert encode < 1.6 * largest
    assert decode < 2 * largest
