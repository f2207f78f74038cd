"""The golden state dict decodes to the recorded values for ever."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from docofl_codec import decode_state_dict, inspect_state_dict
from tests.golden.make_golden import values_hash
from tests.golden.state_dict_case import FOLDER, make

BLOB = (FOLDER / "model.docofl").read_bytes()
MANIFEST: dict[str, Any] = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))


def test_it_is_as_recorded() -> None:
    assert hashlib.sha256(BLOB).hexdigest() == MANIFEST["sha256"]
    stores = {tensor.name: tensor.store for tensor in inspect_state_dict(BLOB).tensors}
    assert stores == {name: entry["store"] for name, entry in MANIFEST["tensors"].items()}
    assert set(stores.values()) == {"coded", "exact", "float16", "bfloat16", "tied"}


def test_it_decodes_to_the_recorded_values() -> None:
    restored = decode_state_dict(BLOB)
    assert list(restored) == list(MANIFEST["tensors"]) == list(make())
    for name, tensor in restored.items():
        entry, array = MANIFEST["tensors"][name], np.asarray(tensor)
        assert (array.dtype.name, list(array.shape)) == (entry["dtype"], entry["shape"])
        assert values_hash(array) == entry["sha256"], name
