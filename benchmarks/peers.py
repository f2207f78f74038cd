"""Other compressors on the same vector, each with its NMSE beside its times.

Entropy coders (zstd, constriction) get the indices of our own quantizer ready-made: their NMSE is
that of bin centres, and their times leave out the search and the quantization. Lossy compressors
(zfp, SZ3) get the floats and the real bits that our frame took.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.case import Case, nmse
from benchmarks.timing import interleaved_min
from docofl_codec import ecuq, reference

SLICE = 2**20  # for coders driven from a Python loop
REFERENCE_SLICE = 2**16  # for the reference's bit-by-bit decoder

_BYTES_PER_VALUE = 4
_REFERENCE_TOLERANCE = 0.1  # the listing as printed
_SZ3_STEPS = 16
_SZ3_CLOSE_BITS = 0.01


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a method makes of one case.

    Attributes
    ----------
    real_bits
        Bits a coordinate that it took.
    nmse
        Error of the values that it gives back; None when it gives none back.
    encode_gbps, decode_gbps
        10^9 bytes of float32 a second.
    note
        What the reader must know to compare.
    """

    real_bits: float
    nmse: float | None
    encode_gbps: float
    decode_gbps: float
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Row(Measurement):
    """A measurement with its place in the table.

    Attributes
    ----------
    dataset, bits
        The case: data set and budget.
    num_levels
        Level count of our frame for this case.
    method
        Name of the method.
    threads
        Threads that it used.
    """

    dataset: str
    bits: float
    num_levels: int
    method: str
    threads: int


@dataclass(frozen=True)
class Peer:
    """A compressor to compare with.

    Attributes
    ----------
    method
        Its name in the table.
    package
        The module that it needs, or None.
    measure
        Takes the case and the number of repeats.
    """

    method: str
    package: str | None
    measure: Callable[[Case, int], Measurement]

    @property
    def installed(self) -> bool:
        """Whether the module that it needs is there."""
        return self.package is None or importlib.util.find_spec(self.package) is not None


def row(case: Case, method: str, threads: int, found: Measurement) -> Row:
    """Put a measurement in its place."""
    return Row(
        dataset=case.dataset,
        bits=case.bits,
        num_levels=case.num_levels,
        method=method,
        threads=threads,
        **asdict(found),
    )


def gbps(num_values: int, seconds: float) -> float:
    """Return the speed for so many float32 values, in 10^9 bytes a second."""
    return num_values * _BYTES_PER_VALUE / seconds / 1e9


def _reference(case: Case, repeats: int) -> Measurement:
    quantized, stream = reference.ecuq.encode(case.values, case.bits, _REFERENCE_TOLERANCE)
    frame = ecuq.encode(case.values[:REFERENCE_SLICE], bits=case.bits)
    best = interleaved_min(
        {
            "encode": lambda: reference.ecuq.encode(case.values, case.bits, _REFERENCE_TOLERANCE),
            "decode": lambda: reference.decode_frame(frame),
        },
        repeats,
    )
    return Measurement(
        real_bits=8 * len(stream) / case.values.size,
        nmse=nmse(case.values, quantized.values),
        encode_gbps=gbps(case.values.size, best["encode"]),
        decode_gbps=gbps(min(REFERENCE_SLICE, case.values.size), best["decode"]),
        note=f"as printed, one stream; decode timed on {REFERENCE_SLICE} values",
    )


def _zstd(level: int) -> Callable[[Case, int], Measurement]:
    def measure(case: Case, repeats: int) -> Measurement:
        zstandard = importlib.import_module("zstandard")
        symbols = _narrowest(case)
        encoder = zstandard.ZstdCompressor(level=level)
        decoder = zstandard.ZstdDecompressor()
        coded = encoder.compress(symbols)
        best = interleaved_min(
            {
                "encode": lambda: encoder.compress(symbols),
                "decode": lambda: decoder.decompress(coded),
            },
            repeats,
        )
        return Measurement(
            real_bits=8 * len(coded) / case.values.size,
            nmse=case.quantization_nmse,
            encode_gbps=gbps(case.values.size, best["encode"]),
            decode_gbps=gbps(case.values.size, best["decode"]),
            note=f"indices only, as {symbols.dtype}",
        )

    return measure


def _constriction_ans(case: Case, repeats: int) -> Measurement:
    constriction = importlib.import_module("constriction")
    symbols, probabilities = case.indices.astype(np.int32), case.shares
    model = constriction.stream.model.Categorical(probabilities, perfect=False)
    coder = constriction.stream.stack.AnsCoder

    def encode() -> Any:
        ans = coder()
        ans.encode_reverse(symbols, model)
        return ans.get_compressed()

    words = encode()
    best = interleaved_min(
        {"encode": encode, "decode": lambda: coder(words).decode(model, symbols.size)}, repeats
    )
    return Measurement(
        real_bits=8 * words.nbytes / symbols.size,
        nmse=case.quantization_nmse,
        encode_gbps=gbps(symbols.size, best["encode"]),
        decode_gbps=gbps(symbols.size, best["decode"]),
        note="indices only, model not stored",
    )


def _constriction_huffman(case: Case, repeats: int) -> Measurement:
    constriction = importlib.import_module("constriction")
    all_symbols, probabilities = case.indices, case.shares
    part = all_symbols[:: max(1, all_symbols.size // SLICE)][:SLICE].tolist()
    write_book = constriction.symbol.huffman.EncoderHuffmanTree(probabilities)
    read_book = constriction.symbol.huffman.DecoderHuffmanTree(probabilities)

    def encode() -> Any:
        encoder = constriction.symbol.QueueEncoder()
        write = encoder.encode_symbol
        for symbol in part:
            write(symbol, write_book)
        return encoder.get_compressed()[0]

    words = encode()

    def decode() -> list[int]:
        read = constriction.symbol.QueueDecoder(words).decode_symbol
        return [read(read_book) for _ in range(len(part))]

    best = interleaved_min({"encode": encode, "decode": decode}, repeats)
    return Measurement(
        real_bits=8 * words.nbytes / len(part),
        nmse=case.quantization_nmse,
        encode_gbps=gbps(len(part), best["encode"]),
        decode_gbps=gbps(len(part), best["decode"]),
        note=f"indices only, model not stored, {len(part)} of them",
    )


def _zfp(case: Case, repeats: int) -> Measurement:
    zfpy = importlib.import_module("zfpy")
    # Blocks of 4 x 4 x 4 serve zfp best: in one dimension a block of 4 values spends 9 bits on its
    # exponent, and rates below that corrupt memory in zfpy 1.0.1. zfp takes up to 2^16 a side.
    padding = -case.values.size % (4 * 4 * 64)
    cube = np.pad(case.values, (0, padding), mode="edge").reshape(-1, 4, 64)
    coded = zfpy.compress_numpy(cube, rate=case.real_bits)
    best = interleaved_min(
        {
            "encode": lambda: zfpy.compress_numpy(cube, rate=case.real_bits),
            "decode": lambda: zfpy.decompress_numpy(coded),
        },
        repeats,
    )
    restored = zfpy.decompress_numpy(coded).ravel()[: case.values.size]
    return Measurement(
        real_bits=8 * len(coded) / case.values.size,
        nmse=nmse(case.values, restored),
        encode_gbps=gbps(case.values.size, best["encode"]),
        decode_gbps=gbps(case.values.size, best["decode"]),
        note="fixed rate, as blocks of 4 x 4 x 4",
    )


def _sz3(case: Case, repeats: int) -> Measurement:
    pysz = importlib.import_module("pysz")
    config = _sz3_config(pysz, case)
    coded = pysz.sz.compress(case.values, config)[0]
    shape = case.values.shape
    best = interleaved_min(
        {
            "encode": lambda: pysz.sz.compress(case.values, config),
            "decode": lambda: pysz.sz.decompress(coded, np.float32, shape),
        },
        repeats,
    )
    return Measurement(
        real_bits=8 * coded.nbytes / case.values.size,
        nmse=nmse(case.values, pysz.sz.decompress(coded, np.float32, shape)[0]),
        encode_gbps=gbps(case.values.size, best["encode"]),
        decode_gbps=gbps(case.values.size, best["decode"]),
        note=f"no prediction, absolute error {config.absErrorBound:.3g}, its search not timed",
    )


def _sz3_config(pysz: Any, case: Case) -> Any:
    """Return SZ3's options, with the error bound that brings it to our frame's real bits.

    Prediction from neighbours only costs bits where neighbours are independent, so it is off. At
    high rates each bit halves the bound, which makes the step below exact; at low rates it
    undershoots and closes in.
    """
    config = pysz.szConfig(case.values.shape)
    config.errorBoundMode = pysz.szErrorBoundMode.ABS
    config.cmprAlgo = pysz.szAlgorithm.NOPRED
    bound = float(np.ptp(case.values)) / case.num_levels / 2
    for _ in range(_SZ3_STEPS):
        config.absErrorBound = bound
        coded = pysz.sz.compress(case.values, config)[0]
        excess = 8 * coded.nbytes / case.values.size - case.real_bits
        if abs(excess) < _SZ3_CLOSE_BITS:
            break
        bound *= 2.0**excess
    return config


def _narrowest(case: Case) -> npt.NDArray[Any]:
    """Return the indices in the narrowest unsigned integers that hold them."""
    return case.indices.astype(np.min_scalar_type(case.shares.size - 1))


PEERS = (
    Peer("NumPy reference", None, _reference),
    Peer("zstd -1", "zstandard", _zstd(1)),
    Peer("zstd -3", "zstandard", _zstd(3)),
    Peer("constriction Huffman", "constriction", _constriction_huffman),
    Peer("constriction ANS", "constriction", _constriction_ans),
    Peer("zfp", "zfpy", _zfp),
    Peer("SZ3", "pysz", _sz3),
)
