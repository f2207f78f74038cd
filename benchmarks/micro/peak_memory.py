"""Peak memory of one encode and one decode, printed as JSON; runs in a process of its own.

``python -m benchmarks.micro.peak_memory normal ecuq:2`` prints, in bytes: ``input``, ``blob``,
``encode_extra`` (peak above the resident input, blob included) and ``decode_extra`` (peak above the
resident blob, less the output).

The peak is the kernel's high-water mark of resident memory (Linux), which sees native allocations;
tracemalloc would not. Start it with `MALLOC_ENVIRONMENT`, or memory that glibc keeps after set-up
could serve the codec unseen.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.micro import datasets
from docofl_codec import make_codec

MALLOC_ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}


def measure(dataset: str, spelling: str) -> dict[str, int]:
    """Return the sizes that the module's docstring lists.

    Parameters
    ----------
    dataset
        Name of a data set.
    spelling
        The codec's, with its budget.

    Returns
    -------
    dict
        Bytes, by name.
    """
    values = datasets.load(dataset)
    codec = make_codec(spelling)
    codec.decode(codec.encode(np.arange(1000, dtype=np.float32)))

    before = start_peak()
    blob = codec.encode(values)
    encode_extra = peak_bytes() - before

    before = start_peak()
    restored = codec.decode(blob)
    decode_extra = peak_bytes() - before - restored.nbytes
    return {
        "input": values.nbytes,
        "blob": len(blob),
        "encode_extra": encode_extra,
        "decode_extra": decode_extra,
    }


def run(dataset: str, spelling: str) -> dict[str, int]:
    """Return what `measure` does in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.micro.peak_memory", dataset, spelling],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **MALLOC_ENVIRONMENT},
        stdout=subprocess.PIPE,
        check=True,
    )
    sizes: dict[str, int] = json.loads(done.stdout)
    return sizes


def start_peak() -> int:
    """Give unused memory back, reset the high-water mark, return the resident bytes."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _status_bytes("VmRSS")


def peak_bytes() -> int:
    """Return the high-water mark since `start_peak`."""
    return _status_bytes("VmHWM")


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2])))
