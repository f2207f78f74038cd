"""``.pt`` files of torch, which this module imports: state dicts, never whole objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

from docofl_codec.errors import CorruptFrameError, InvalidInputError
from docofl_codec.files.sources import MAX_INFLATION
from docofl_codec.state_dict.source import MappingSource

__all__ = ["read_state_dict", "torch_source", "write_state_dict_file"]

# Where training scripts put the weights beside other things.
USUAL_KEYS = ("state_dict", "model_state_dict", "model_state", "model")


def torch_source(path: Path, key: str | None = None) -> MappingSource:
    """Return the tensors of a file, mapped where its layout allows."""
    tensors = read_state_dict(path, key)
    most = path.stat().st_size * MAX_INFLATION
    for name, tensor in tensors.items():
        # Strides of 0 show a few bytes as many.
        num_bytes = tensor.numel() * tensor.element_size()
        if num_bytes > most:
            raise CorruptFrameError(
                f"{path}, tensor {name!r}: found {num_bytes} bytes, expected at most {most}, "
                f"{MAX_INFLATION} times those of the file"
            )
    return MappingSource(tensors)


def read_state_dict(path: Path, key: str | None = None) -> dict[str, torch.Tensor]:
    """Return the state dict of a file; `key` says where it is, if not at the top or a usual place.

    Raises
    ------
    InvalidInputError
        Where there is none.
    CorruptFrameError
        Where torch cannot read the file without unpickling objects.
    """
    with path.open("rb"):
        pass  # an error of the file system is no damaged file
    found: Any = _load(path)
    if key is not None:
        if not isinstance(found, Mapping) or key not in found:
            raise InvalidInputError(f"{path}: has no key {key!r}")
        found = found[key]
    elif isinstance(found, Mapping) and not _is_state_dict(found):
        usual = [found[name] for name in USUAL_KEYS if name in found]
        found = next(filter(_is_state_dict, usual), found)
    if isinstance(found, torch.Tensor):
        return {"array": found}
    if not isinstance(found, Mapping) or not _is_state_dict(found):
        keys = ", ".join(map(repr, list(found)[:8])) if isinstance(found, Mapping) else "none"
        raise InvalidInputError(
            f"{path}: found no dict of tensors, expected one at the top or under key= ({keys})"
        )
    return dict(found)


def _load(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception:
        # Files of torch before 1.6 cannot be mapped.
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            first = str(error).partition("\n")[0][:200]
            raise CorruptFrameError(f"{path}: torch cannot read it: {first}") from None


def _is_state_dict(found: Any) -> bool:
    return isinstance(found, Mapping) and all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in found.items()
    )


def write_state_dict_file(file: BinaryIO, tensors: Mapping[str, Any]) -> None:
    """Write a ``.pt`` file; torch takes all tensors at once."""
    try:
        torch.save(dict(tensors), file)
    except RuntimeError as error:
        raise OSError(f"torch cannot write the file: {str(error).partition(chr(10))[0]}") from error
