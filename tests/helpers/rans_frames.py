"""Put payloads of ECUQ with rANS together by hand (docs/format.md, sections 3.5 to 3.9)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.helpers.frames import FLOAT32, make_frame, pack_bits, width_bits

TOTAL = 4096
LOWEST = 1 << 16
VERSION = 2


def rans_table(frequencies: Iterable[int]) -> bytes:
    """Write the frequencies of section 3.7."""
    bits, previous = "", 6
    for frequency in frequencies:
        digits = f"{frequency:b}" if frequency else ""
        bits += width_bits(len(digits), previous) + digits[1:][::-1]
        previous = len(digits)
    return pack_bits(bits)


def rans_stream(frequencies: Sequence[int], symbols: Sequence[int], lanes: int = 1) -> bytes:
    """Code symbols; symbol i belongs to state i % lanes."""
    states, words = [LOWEST] * lanes, []
    for i in reversed(range(len(symbols))):
        state, symbol = states[i % lanes], symbols[i]
        frequency, start = frequencies[symbol], sum(frequencies[:symbol])
        if state >= frequency << 20:
            words.append(state & 0xFFFF)
            state >>= 16
        states[i % lanes] = state // frequency * TOTAL + state % frequency + start
    return struct.pack(f"<{lanes}I{len(words)}H", *states, *reversed(words))


@dataclass(frozen=True)
class RansPayload:
    """As it stands, three coordinates at levels 0, 1, 0 of two, at 0 and 1."""

    mode: int = 0
    tuple_size: int = 1
    num_tables: int = 1
    coded_levels: int = 2
    entropy: float = 1.0
    origin: float = 0.0
    step: float = 1.0
    base: int = 0
    displacements: bytes = b""
    tables: bytes = rans_table([3000, 1096])
    choices: bytes = b""
    stream: bytes = rans_stream([3000, 1096], [0, 1, 0])
    outliers: bytes | None = None
    spikes: bytes | None = None
    num_blocks: int = 1  # all alike

    def payload(self) -> bytes:
        parameters = struct.pack(
            "<5B3fi",
            1,
            self.mode,
            self.tuple_size,
            self.num_tables - 1,
            self.coded_levels - 1,
            self.entropy,
            self.origin,
            self.step,
            self.base,
        )
        entry = struct.pack("<I", len(self.stream))
        if self.outliers is not None:
            entry += struct.pack("<I", len(self.outliers) // 7)
        if self.spikes is not None:
            entry += struct.pack("<I", len(self.spikes) // 7)
        directory = (entry + self.choices) * self.num_blocks
        blocks = (self.stream + (self.outliers or b"") + (self.spikes or b"")) * self.num_blocks
        return parameters + self.displacements + self.tables + directory + blocks

    def frame(self, *shape: int, dtype: int = FLOAT32, version: int = VERSION) -> bytes:
        return make_frame(self.payload(), shape or (3,), dtype=dtype, version=version)


def rans_outlier(position: int, value: float) -> bytes:
    return struct.pack("<HBf", position & 0xFFFF, position >> 16, value)
