"""Readable NumPy twins of the numeric core.

Nothing here is used at run time by the rest of the package, and nothing here imports more than
NumPy and the standard library. Each file is the shortest honest statement of one thing:

========================  ==================================================================
``ecuq``                  algorithm 3 of the DoCoFL paper, and a complete encoder around it
``eden``                  EDEN: codebooks, rotation, and a codec with words of fixed width
``huffman``               code lengths and canonical prefix codes
``bits``                  readers for bytes and bit fields, and a packer of code words
``checksum``              XXH64 and the checksum of a frame
``frame_decoder``         a second decoder for ``docs/format.md``, in the order of its sections
========================  ==================================================================

As in the package itself, ``ecuq`` and ``eden`` name the modules: ``ecuq.encode``, ``eden.encode``.
"""

from . import ecuq, eden
from .checksum import frame_checksum, xxh64
from .ecuq import Quantized, entropy, find_num_levels, quantize, reconstruct
from .frame_decoder import decode_eden_payload, decode_frame
from .huffman import huffman_lengths

__all__ = [
    "Quantized",
    "decode_eden_payload",
    "decode_frame",
    "ecuq",
    "eden",
    "entropy",
    "find_num_levels",
    "frame_checksum",
    "huffman_lengths",
    "quantize",
    "reconstruct",
    "xxh64",
]
