"""The table of EDEN in ``make bench``: time and error beside other implementations, in one run.

Run it from the root of the repository: ``python -m benchmarks.compare_eden``. One thread each.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import Floats, nmse
from benchmarks.eden_peers import EDEN_PEERS, EdenPeer, PeerUnavailableError
from benchmarks.micro import datasets
from benchmarks.report import Table, progress, show
from benchmarks.timing import interleaved_min
from docofl_codec import Eden, reference

BITS = (0.5, 1, 1.5, 2, 3, 4, 8)
PEER_BITS = (1, 2, 3, 4)
COLUMNS = ("codec", "bits", "real bits", "encode ms", "decode ms", "NMSE", "theory")


def main() -> None:
    """Measure and print."""
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
    values = datasets.load("normal")
    rows = []
    for bits in BITS:
        rows.append(_our_row("EDEN", Eden(bits=bits, threads=1), values))
    for bits in (2, 3, 4):
        codec = Eden(bits=bits, threads=1, entropy_coded=True)
        rows.append(_our_row("EDEN, entropy-coded", codec, values))
    missing = set()
    for make_peer in EDEN_PEERS:
        for peer_bits in PEER_BITS:
            try:
                rows.append(_peer_row(make_peer(peer_bits), peer_bits, values))
            except PeerUnavailableError as error:
                missing.add(str(error))
    title = f"EDEN, {values.size:,} normal float32 values, one thread"
    show(Table(title, COLUMNS, rows, ("codec",)))
    for text in sorted(missing):
        print(f"skipped: {text}")


def _our_row(name: str, codec: Eden, values: Floats) -> list[str]:
    blob = codec.encode(values, seed=1)
    out = np.ones_like(values)
    times = _times(
        f"{name} at {codec.bits} bits",
        lambda: codec.encode(values, seed=1),
        lambda: codec.decode(blob, out=out),
        5,
    )
    theory = "" if codec.entropy_coded else f"{reference.eden.theory_nmse(codec.bits):.5f}"
    return [
        name,
        f"{codec.bits}",
        f"{8 * len(blob) / values.size:.4f}",
        *times,
        f"{nmse(values, out):.5f}",
        theory,
    ]


def _peer_row(peer: EdenPeer, bits: int, values: Floats) -> list[str]:
    coded = peer.encode(values)
    times = _times(
        f"{peer.name} at {bits} bits",
        lambda: peer.encode(values),
        lambda: peer.decode(coded),
        1,
    )
    return [
        peer.name,
        f"{bits}",
        f"{8 * peer.num_bytes(coded) / values.size:.4f}",
        *times,
        f"{nmse(values, peer.decode(coded)):.5f}",
        f"{reference.eden.theory_nmse(bits):.5f}",
    ]


def _times(
    label: str, encode: Callable[[], Any], decode: Callable[[], Any], repeats: int
) -> tuple[str, str]:
    progress(label)
    best = interleaved_min({"encode": encode, "decode": decode}, repeats)
    progress("")
    return f"{best['encode'] * 1e3:.1f}", f"{best['decode'] * 1e3:.1f}"


if __name__ == "__main__":
    main()
