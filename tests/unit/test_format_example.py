"""The annotated frame of docs/format.md, section 7, is what the encoder writes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from docofl_codec import decode, ecuq, reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "format.md"
TENSOR = np.array(
    [
        [0, 0, 1, 0, 0.5, 0],
        [0, -1, 0, 0, 0, 1],
        [0, 0, 0.5, 0, 0, 0],
        [0, 1, 0, 0, -1, 0],
    ],
    dtype=np.float32,
)


def documented_frame() -> bytes:
    """Return the bytes at the starts of the lines of the page's dump."""
    dump = PAGE.read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    rows = [re.match(r"((?:[0-9a-f]{2} ?)+)", line) for line in dump.splitlines()]
    return bytes.fromhex("".join(row.group(1) for row in rows if row))


def test_encoder_writes_the_documented_frame() -> None:
    assert ecuq.encode(TENSOR, bits=4) == documented_frame()


def test_documented_frame_means_the_documented_values() -> None:
    centres = {0.0: 0, 1.0: 0.9728, 0.5: 0.4864, -1.0: -0.9728}
    expected = np.vectorize(centres.__getitem__, otypes=[np.float64])(TENSOR)
    found = np.asarray(decode(documented_frame()))
    assert np.max(np.abs(found - expected)) <= 0.00005  # four digits are printed
    assert np.array_equal(reference.decode_frame(documented_frame())[0], found)
