"""The bytes promise of state dicts (docs/format.md, section 10.4)."""

from __future__ import annotations

from collections.abc import Sequence

from docofl_codec.state_dict.index import encode_name
from docofl_codec.state_dict.tensors import TensorSpec

__all__ = ["allowance", "budget_bytes"]


def allowance(specs: Sequence[TensorSpec]) -> int:
    """Return the bytes that names and shapes may take beside a small budget."""
    return 128 + sum(64 + len(encode_name(spec.name)) + 10 * len(spec.shape) for spec in specs)


def budget_bytes(specs: Sequence[TensorSpec], bits: float) -> int:
    """Return the most bytes that a state dict may take (docs/format.md, section 10.4)."""
    budget = int(bits * sum(spec.size for spec in specs if not spec.alias_of) / 8)
    extra = allowance(specs)
    return budget if budget >= 4 * extra else budget + extra
