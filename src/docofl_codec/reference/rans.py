"""The rANS payload of ECUQ: sections 3.5 to 3.9 of ``docs/format.md``, decoded plainly.

Range asymmetric numeral systems are due to Duda (2013); dependent quantization is trellis-coded
quantization (Marcellin and Fischer, 1990) with an entropy coder.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bits import BitReader, ByteReader
from .huffman import read_width

BLOCK = 131_072
SEGMENT = 4_096
TRELLIS_RUN = 16_384
TOTAL_BITS = 12
TOTAL = 1 << TOTAL_BITS
LOWEST_STATE = 1 << 16
FIRST_WIDTH = 6
MAX_TABLES = 16
MAX_INDEX = 1 << 20
RUN = 16
MAX_COEFFICIENT = 2.0**120
# Section 3.9: sqrt(1/8) cos(pi n / 32) for n = 0 to 16.
COSINES = [np.float32(math.sqrt(0.125) * math.cos(math.pi * n / 32)) for n in range(16)] + [
    np.float32(0)
]


@dataclass(frozen=True)
class _Code:
    """Sections 3.5 and 3.6: the levels and how they are coded."""

    dependent: bool
    has_outliers: bool
    transformed: bool
    tuple_size: int
    coded_levels: int
    values: NDArray[np.float32]  # by quantizer and coded level
    tables: list[list[int]]  # the symbol at each of 4,096 places
    starts: list[list[int]]
    frequencies: list[list[int]]


@dataclass(frozen=True)
class _Block:
    """Section 3.7: one entry of the directory."""

    size: int
    stream_bytes: int
    num_outliers: int
    num_spikes: int
    choices: list[int]


def decode_rans_payload(
    payload: ByteReader, n: int, overflow: float, largest: float
) -> tuple[NDArray[np.float32], dict[str, Any]]:
    """Decode what follows the byte of the coder; see `decode_frame`.

    Values at `overflow` or beyond do not fit the frame's dtype; `largest` does.
    """
    # 1. Parameters.
    mode = payload.byte("mode")
    _check(mode <= 31, f"mode is {mode:#04x}, expected at most 31")
    dependent, mirrored, displaced, has_outliers, transformed = (
        bool(mode >> bit & 1) for bit in range(5)
    )
    _check(dependent or not mirrored, "mode: mirrored levels go with dependent ones only")
    _check(dependent or not transformed, "mode: a transform goes with dependent levels only")
    tuple_size = payload.byte("tuple size")
    _check(tuple_size in (1, 2), f"tuple size is {tuple_size}, expected 1 or 2")
    num_tables = payload.byte("tables - 1") + 1
    _check(num_tables <= MAX_TABLES, f"{num_tables} tables, expected at most {MAX_TABLES}")
    coded_levels = payload.byte("W - 1") + 1
    most = 16 if tuple_size == 2 else 128 if dependent else 256
    _check(2 <= coded_levels <= most, f"W is {coded_levels}, expected 2 to {most}")
    entropy, origin, step = payload.unpack("3f", "parameters")
    _check(math.isfinite(entropy) and entropy >= 0, f"entropy is {entropy}")
    _check(math.isfinite(origin), f"origin is {origin}")
    _check(math.isfinite(step) and step > 0, f"step is {step}")
    (base,) = payload.unpack("i", "base")
    _check(abs(base) <= MAX_INDEX, f"base is {base}")
    _check(not dependent or base % 2 == 0, f"base is {base}, expected an even number")

    # 2. Levels.
    quantizers = 2 if dependent else 1
    index = base + np.arange(coded_levels)
    positions = _positions(index, dependent=dependent, mirrored=mirrored)
    shift = np.zeros((quantizers, coded_levels), np.int8)
    if displaced:
        data = payload.take(quantizers * coded_levels, "displacements")
        shift = np.frombuffer(data, np.int8).reshape(quantizers, coded_levels)
    exact = float(origin) + float(step) * (positions + shift / 64)
    _check(bool((np.abs(exact) <= np.finfo(np.float32).max).all()), "levels: beyond float32")
    values = exact.astype(np.float32)
    limit = MAX_COEFFICIENT if transformed else overflow
    _check(bool((np.abs(values) < limit).all()), "levels: beyond the frame's dtype, or 2^120")

    # 3. Tables, directory and blocks.
    frequencies = [_read_table(payload, coded_levels**tuple_size) for _ in range(num_tables)]
    code = _Code(
        dependent,
        has_outliers,
        transformed,
        tuple_size,
        coded_levels,
        values,
        [np.repeat(np.arange(len(f)), f).tolist() for f in frequencies],
        [np.concatenate(([0], np.cumsum(f)[:-1])).tolist() for f in frequencies],
        frequencies,
    )
    directory = [_read_entry(payload, min(BLOCK, n - start), code) for start in range(0, n, BLOCK)]
    blocks = [_read_block(payload, block, code, overflow, largest) for block in directory]
    return np.concatenate(blocks), {
        "entropy": entropy,
        "explicit_levels": False,
        "num_levels": quantizers * coded_levels,
        "coded_levels": coded_levels,
        "tuple_size": tuple_size,
        "raw_bits": 0,
        "base": base,
        "dependent": dependent,
        "transformed": transformed,
        "centroids": displaced,
        "num_tables": num_tables,
        "x_min": float(values.min()),
        "x_max": float(values.max()),
        "num_outliers": sum(block.num_outliers + block.num_spikes for block in directory),
    }


def _positions(index: NDArray[np.int64], *, dependent: bool, mirrored: bool) -> NDArray[np.int64]:
    """Section 3.6: where levels lie, in steps, for each quantizer."""
    if not dependent:
        return index[np.newaxis]
    first = np.where(index < 0, 2 * index + 1, 2 * index)
    second = -first if mirrored else np.where(index > 0, 2 * index - 1, 2 * index)
    return np.stack((first, second))


def _read_table(payload: ByteReader, alphabet: int) -> list[int]:
    """Section 3.7: frequencies that add up to 4,096."""
    reader = BitReader(payload.peek(4 * alphabet))  # a valid entry has at most 22 bits
    frequencies = []
    width = FIRST_WIDTH
    for symbol in range(alphabet):
        width = read_width(reader, width, TOTAL_BITS, f"table: width of symbol {symbol}")
        frequencies.append(1 << (width - 1) | reader.field(width - 1) if width > 0 else 0)
    _check(sum(frequencies) == TOTAL, f"table: adds up to {sum(frequencies)}, expected {TOTAL}")
    payload.take(reader.finish("table"), "table")
    return frequencies


def _read_entry(payload: ByteReader, size: int, code: _Code) -> _Block:
    (stream_bytes,) = payload.unpack("I", "directory")
    (num_outliers,) = payload.unpack("I", "directory") if code.has_outliers else (0,)
    (num_spikes,) = payload.unpack("I", "directory") if code.transformed else (0,)
    _check(max(num_outliers, num_spikes) <= size, "directory: more outliers than coordinates")
    num_tables = len(code.tables)
    segments = -(-size // SEGMENT)
    choices = [0] * segments
    if num_tables > 1:
        halves = [
            half
            for byte in payload.take(-(-segments // 2), "directory")
            for half in (byte & 15, byte >> 4)
        ]
        choices = halves[:segments]
        _check(max(choices) < num_tables, "directory: a segment has no table")
        _check(not any(halves[segments:]), "directory: choice beyond the last segment")
    return _Block(size, stream_bytes, num_outliers, num_spikes, choices)


def _read_block(
    payload: ByteReader, block: _Block, code: _Code, overflow: float, largest: float
) -> NDArray[np.float32]:
    """Section 3.8: the values of one block."""
    symbols = _read_symbols(ByteReader(payload.take(block.stream_bytes, "stream")), block, code)
    coded = symbols
    if code.tuple_size == 2:
        coded = np.stack((symbols // code.coded_levels, symbols % code.coded_levels), 1).ravel()
        _check(not coded[block.size :].any(), "stream: last pair is not completed with level 0")
        coded = coded[: block.size]
    quantizer = _follow(coded) if code.dependent else np.zeros_like(coded)
    values = code.values[quantizer, coded]
    if code.transformed:
        _restore_outliers(payload, block.num_outliers, MAX_COEFFICIENT, values)
        values = np.clip(transform_back(values), -np.float32(largest), np.float32(largest))
        _restore_outliers(payload, block.num_spikes, overflow, values)
    else:
        _restore_outliers(payload, block.num_outliers, overflow, values)
    return values


def _restore_outliers(
    payload: ByteReader, count: int, overflow: float, values: NDArray[np.float32]
) -> None:
    """Section 3.8, step 3."""
    previous = -1
    for _ in range(count):
        low, high = payload.unpack("HB", "outlier")
        (value,) = payload.unpack("f", "outlier")
        position = low | high << 16
        _check(previous < position < values.size, f"outlier: position {position} is out of order")
        _check(abs(value) < overflow, f"outlier: value {value}")
        values[position] = value
        previous = position


def transform_back(coefficients: NDArray[np.float32]) -> NDArray[np.float32]:
    """Section 3.9: the values of a block; each product and each sum is rounded to float32."""
    num_runs = coefficients.size // RUN
    bands = coefficients[: RUN * num_runs].reshape(RUN, num_runs)
    runs = np.stack(_inverse_points(list(bands)), axis=1)
    return np.concatenate((runs.ravel(), coefficients[RUN * num_runs :]))


def _inverse_points(coefficients: list[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
    points = len(coefficients)
    if points == 1:
        return [np.float32(0.25) * coefficients[0]]
    even = _inverse_points(coefficients[::2])
    odd = []
    for t in range(points // 2):
        total = _cosine(1, t, points) * coefficients[1]
        for k in range(3, points, 2):
            total = total + _cosine(k, t, points) * coefficients[k]
        odd.append(total)
    first = [e + o for e, o in zip(even, odd, strict=True)]
    second = [e - o for e, o in zip(even, odd, strict=True)]
    return first + second[::-1]


def _cosine(k: int, t: int, points: int) -> np.float32:
    """Return the k-th of so many basis vectors at t."""
    n = k * (RUN // points) * (2 * t + 1) % 64
    n = min(n, 64 - n)
    value: np.float32 = -COSINES[32 - n] if n > RUN else COSINES[n]
    return value


def _read_symbols(stream: ByteReader, block: _Block, code: _Code) -> NDArray[np.int64]:
    """Section 3.8, step 1: interleaved rANS."""
    lanes = 32 if block.size >= BLOCK // 2 else 4 if block.size >= SEGMENT else 1
    states = list(stream.unpack(f"{lanes}I", "states"))
    _check(min(states) >= LOWEST_STATE, "states: below 2^16")
    symbols = []
    for i in range(-(-block.size // code.tuple_size)):
        table = block.choices[i * code.tuple_size // SEGMENT]
        state = states[i % lanes]
        place = state % TOTAL
        symbol = code.tables[table][place]
        state = code.frequencies[table][symbol] * (state // TOTAL)
        state += place - code.starts[table][symbol]
        if state < LOWEST_STATE:
            state = state << 16 | int(stream.unpack("H", "words")[0])
        states[i % lanes] = state
        symbols.append(symbol)
    _check(stream.remaining == 0, "stream: words are left")
    _check(set(states) == {LOWEST_STATE}, "stream: a state is not 2^16 at the end")
    return np.array(symbols, np.int64)


def _follow(coded: NDArray[np.int64]) -> NDArray[np.int64]:
    """Section 3.8, step 2: the quantizer of every coordinate."""
    quantizer = np.empty_like(coded)
    state = 0
    for i, parity in enumerate((coded % 2).tolist()):
        if i % TRELLIS_RUN == 0:
            state = 0
        quantizer[i] = state % 2
        state = 2 * (state % 4) + (parity ^ (2 <= state <= 5))
    return quantizer


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
