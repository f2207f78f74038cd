"""Where the tensors of a state dict come from: a mapping in memory, or a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from docofl_codec._buffers import Tensor, imported_torch
from docofl_codec.state_dict.tensors import Memory, TensorSpec, memory_of, spec_of

__all__ = ["MappingSource", "TensorSource"]


class TensorSource(Protocol):
    """Named tensors in order, one at a time."""

    @property
    def specs(self) -> Sequence[TensorSpec]:
        """Describe the tensors; no two have one name."""
        ...

    @property
    def from_torch(self) -> bool:
        """Tell whether they are torch's."""
        ...

    def load(self, number: int) -> Memory:
        """Return the values of a tensor; they stay as long as somebody holds them."""
        ...


class MappingSource:
    """The tensors of a mapping, which is not to change meanwhile."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        if not isinstance(tensors, Mapping):
            raise TypeError(
                f"state dict: found {type(tensors).__qualname__}, expected a mapping of tensors"
            )
        torch = imported_torch()
        self._tensors: list[Tensor] = []
        self.specs: list[TensorSpec] = []
        self.from_torch = False
        first: dict[Any, str] = {}
        for name, tensor in tensors.items():
            if not isinstance(name, str):
                raise TypeError(f"name {name!r}: found {type(name).__qualname__}, expected str")
            spec = spec_of(name, tensor)
            place = _place(tensor) if spec.size else None
            earlier = first.setdefault(place, name) if place else name
            self.specs.append(spec if earlier == name else replace(spec, alias_of=earlier))
            self._tensors.append(tensor)
            if torch is not None and isinstance(tensor, torch.Tensor):
                self.from_torch = True

    def load(self, number: int) -> Memory:
        """Return the values of a tensor."""
        return memory_of(self.specs[number], self._tensors[number])


def _place(tensor: Any) -> tuple[Any, ...]:
    """Return what two tensors have in common that show the same memory in the same way."""
    if isinstance(tensor, (np.ndarray, np.generic)):
        address = tensor.__array_interface__["data"][0]
        return ("numpy", address, tensor.dtype.str, tensor.shape, tensor.strides)
    try:
        address = tensor.data_ptr()
    except RuntimeError:  # without memory, as within vmap; refused by memory_of
        address = id(tensor)
    return (
        str(tensor.device),
        address,
        str(tensor.dtype),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.is_conj(),
        tensor.is_neg(),
    )
