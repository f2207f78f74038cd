"""XXH64, and the checksum of a frame (``docs/format.md``, section 5)."""

import struct

PIECE_BYTES = 262_144

_MASK = (1 << 64) - 1
_PRIME_1 = 0x9E3779B185EBCA87
_PRIME_2 = 0xC2B2AE3D27D4EB4F
_PRIME_3 = 0x165667B19E3779F9
_PRIME_4 = 0x85EBCA77C2B2AE63
_PRIME_5 = 0x27D4EB2F165667C5


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the 64-bit xxHash digest of ``data``.

    Parameters
    ----------
    data : bytes
        What to hash.
    seed : int, optional
        0 … 2^64 - 1.

    Returns
    -------
    int
        The digest as an unsigned integer.

    Examples
    --------
    >>> hex(xxh64(b""))
    '0xef46db3751d8e999'
    """
    size = len(data)

    # 1. Four accumulators take whole stripes of 32 bytes.
    end_of_stripes = size - size % 32
    if end_of_stripes:
        a = (seed + _PRIME_1 + _PRIME_2) & _MASK
        b = (seed + _PRIME_2) & _MASK
        c = seed
        d = (seed - _PRIME_1) & _MASK
        for lane_a, lane_b, lane_c, lane_d in struct.iter_unpack("<4Q", data[:end_of_stripes]):
            a, b = _round(a, lane_a), _round(b, lane_b)
            c, d = _round(c, lane_c), _round(d, lane_d)
        digest = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        for accumulator in (a, b, c, d):
            digest = ((digest ^ _round(0, accumulator)) * _PRIME_1 + _PRIME_4) & _MASK
    else:
        digest = seed + _PRIME_5
    digest = (digest + size) & _MASK

    # 2. The tail: words of eight bytes, then one of four, then single bytes.
    position = end_of_stripes
    while size - position >= 8:
        (word,) = struct.unpack_from("<Q", data, position)
        digest = _rotate(digest ^ _round(0, word), 27) * _PRIME_1 + _PRIME_4 & _MASK
        position += 8
    if size - position >= 4:
        (word,) = struct.unpack_from("<I", data, position)
        digest = _rotate(digest ^ (word * _PRIME_1 & _MASK), 23) * _PRIME_2 + _PRIME_3 & _MASK
        position += 4
    for byte in data[position:]:
        digest = _rotate(digest ^ (byte * _PRIME_5 & _MASK), 11) * _PRIME_1 & _MASK

    # 3. Avalanche.
    digest = (digest ^ digest >> 33) * _PRIME_2 & _MASK
    digest = (digest ^ digest >> 29) * _PRIME_3 & _MASK
    return digest ^ digest >> 32


def frame_checksum(data: bytes) -> int:
    """Return the 32-bit checksum of the bytes that precede it in a frame.

    Parameters
    ----------
    data : bytes
        The frame without its last four bytes.

    Returns
    -------
    int
        The low half of the digest of the digests of the pieces.
    """
    pieces = (data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES))
    digests = b"".join(struct.pack("<Q", xxh64(piece)) for piece in pieces)
    return xxh64(digests) & 0xFFFFFFFF


def _round(accumulator: int, lane: int) -> int:
    return _rotate((accumulator + lane * _PRIME_2) & _MASK, 31) * _PRIME_1 & _MASK


def _rotate(word: int, count: int) -> int:
    return (word << count | word >> (64 - count)) & _MASK
