"""Writes the Lloyd-Max tables of EDEN for the core: ``cpp/src/eden/codebooks.inl``.

The tables are part of the format (``docs/format.md``, section 4.2). They come from
`docofl_codec.reference.eden`; only their spelling in C++ is decided here.

    python tools/make_codebooks.py            write the file
    python tools/make_codebooks.py --check    exit with 1 if the file is not what would be written
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from docofl_codec.reference.eden import MAX_WIDTH, codebook, lloyd_max, thresholds

TARGET = Path(__file__).resolve().parents[1] / "cpp" / "src" / "eden" / "codebooks.inl"
HEADER = """\
// Made by tools/make_codebooks.py; do not edit.
//
// Lloyd-Max quantizers of N(0, 1): for each width the positive levels, ascending, the thresholds
// between neighbours among them, and (of all widths from 0) the mean squared errors.
"""
COLUMNS = 100


def literal(value: np.float32) -> str:
    """Return a float32 as a hexadecimal literal of C++17.

    Examples
    --------
    >>> literal(np.float32(0.75))
    '0x1.800000p-1f'
    """
    mantissa, exponent = float(value).hex().split("p")
    return f"{mantissa[: len('0x1.800000')]}p{exponent}f"


def array(declaration: str, items: Sequence[str]) -> str:
    """Return the definition of an array of items of one length, broken as clang-format does it."""
    line = f"{declaration} = {{{', '.join(items)}}};\n"
    if len(line) <= COLUMNS:
        return line
    most_per_line = (COLUMNS - len("    ")) // len(f"{items[0]}, ")
    num_lines = -(-len(items) // most_per_line)
    per_line = -(-len(items) // num_lines)
    rows = [items[start : start + per_line] for start in range(0, len(items), per_line)]
    return f"{declaration} = {{\n" + "".join(f"    {', '.join(row)},\n" for row in rows) + "};\n"


def float_array(name: str, values: NDArray[np.float32]) -> str:
    """Return the definition of an array of floats."""
    return array(f"constexpr float {name}[]", [literal(value) for value in values])


def make() -> str:
    """Return the text of the file."""
    parts = [HEADER]
    for width in range(1, MAX_WIDTH + 1):
        parts.append(float_array(f"kCodebook{width}", codebook(width)))
        if width > 1:
            parts.append(float_array(f"kThresholds{width}", thresholds(width)))
    # Ten digits are the same on every machine; the last ones of a double are not.
    distortions = [f"{lloyd_max(width)[1]:.9e}" for width in range(MAX_WIDTH + 1)]
    parts.append(array(f"constexpr double kDistortion[{MAX_WIDTH + 1}]", distortions))
    return "\n".join(parts)


def is_current() -> bool:
    """Tell whether the file is what would be written."""
    return TARGET.is_file() and TARGET.read_text(encoding="ascii") == make()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description="Write the Lloyd-Max tables of EDEN.")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    if parser.parse_args(arguments).check:
        if is_current():
            return 0
        print(f"{TARGET} is not what tools/make_codebooks.py writes", file=sys.stderr)
        return 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(make(), encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
