"""Write the golden frames: `python -m tests.golden.make_golden`, or `make golden`.

The folders named `latest` hold what the encoders write now. Frames of the folders that are named
after a version are decoded for ever: v1 and v2 are of earlier encoders and are not written again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec import (
    decode,
    decode_state_dict,
    encode_state_dict,
    inspect,
    inspect_state_dict,
)
from docofl_codec.reference import decode_frame
from tests.golden import state_dict_case
from tests.golden.baseline_cases import BASELINE_CASES
from tests.golden.best_cases import BEST_CASES
from tests.golden.cases import CASES, Case

FIRST_FOLDER = Path(__file__).parent / "v1"
LATEST_FOLDER = Path(__file__).parent / "latest"
BASELINE_FOLDER = Path(__file__).parent / "v1-baselines"
SECOND_FOLDER = Path(__file__).parent / "v2"
BEST_FOLDER = Path(__file__).parent / "latest-best"
MAX_TOTAL_BYTES = 100_000


def values_hash(x: npt.NDArray[Any]) -> str:
    """Return the SHA-256 of the values, little-endian; bfloat16 as float32, which NumPy has."""
    if x.dtype.name == "bfloat16":
        x = x.astype(np.float32)
    return hashlib.sha256(np.ascontiguousarray(x, x.dtype.newbyteorder("<")).tobytes()).hexdigest()


def describe(name: str, case: Case) -> tuple[bytes, dict[str, Any]]:
    """Return a frame and its entry in the manifest; fail where it does not show what it should."""
    x = case.make()
    blob = case.encode()
    info = inspect(blob)
    found = {key: getattr(info, key) for key in case.shows}
    if found != case.shows:
        raise SystemExit(f"{name}: expected {case.shows}, found {found} in {info}")
    decoded = np.asarray(decode(blob))
    has_reference = name not in BASELINE_CASES
    if has_reference and values_hash(decoded) != values_hash(np.asarray(decode_frame(blob)[0])):
        raise SystemExit(f"{name}: the core and the reference differ")
    return blob, {
        "codec": case.codec.get_config(),
        **({} if case.seed is None else {"seed": case.seed}),
        "dtype": info.dtype,
        "shape": list(info.shape),
        "input_sha256": values_hash(x),
        "frame_sha256": hashlib.sha256(blob).hexdigest(),
        "frame_bytes": len(blob),
        "decoded_sha256": values_hash(decoded),
    }


def write(folder: Path, cases: dict[str, Case]) -> None:
    """Write the frames of a folder and its manifest."""
    made = {name: describe(name, case) for name, case in cases.items()}
    total = sum(len(blob) for blob, _ in made.values())
    if total > MAX_TOTAL_BYTES:
        raise SystemExit(f"the frames take {total} bytes, expected at most {MAX_TOTAL_BYTES}")
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.docofl"):
        old.unlink()
    for name, (blob, _) in made.items():
        (folder / f"{name}.docofl").write_bytes(blob)
    manifest = {name: entry for name, (_, entry) in made.items()}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    print(f"{len(made)} frames, {total} bytes")


def write_state_dict(folder: Path) -> None:
    """Write the golden state dict and its manifest."""
    blob = encode_state_dict(state_dict_case.make(), bits=state_dict_case.BITS)
    restored = decode_state_dict(blob)
    tensors = {
        report.name: {
            "dtype": report.dtype,
            "shape": list(report.shape),
            "store": report.store,
            "sha256": values_hash(np.asarray(restored[report.name])),
        }
        for report in inspect_state_dict(blob).tensors
    }
    manifest = {"sha256": hashlib.sha256(blob).hexdigest(), "tensors": tensors}
    folder.mkdir(exist_ok=True)
    (folder / "model.docofl").write_bytes(blob)
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    (folder / "manifest.json").write_text(text, encoding="utf-8")
    print(f"a state dict of {len(tensors)} tensors, {len(blob)} bytes")


FOLDERS = {LATEST_FOLDER: CASES, BASELINE_FOLDER: BASELINE_CASES, BEST_FOLDER: BEST_CASES}


def main() -> None:
    """Write all frames and the manifests, or those of the folders that are named."""
    named = sys.argv[1:]
    for folder, cases in FOLDERS.items():
        if not named or folder.name in named:
            write(folder, cases)
    if state_dict_case.FOLDER.name in named:
        write_state_dict(state_dict_case.FOLDER)


if __name__ == "__main__":
    main()
