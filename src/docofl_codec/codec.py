"""Codecs as objects: one protocol for everything that turns a tensor into bytes.

A codec is a frozen set of options. Code that moves tensors takes a :class:`Codec` and does not
care which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from docofl_codec import _core, ecuq, eden, frame
from docofl_codec._buffers import Tensor, as_raw, check_threads
from docofl_codec.errors import InvalidInputError

__all__ = ["Codec", "Ecuq", "Eden", "Identity", "codec_from_config", "make_codec"]


@runtime_checkable
class Codec(Protocol):
    """What every codec can do."""

    def encode(self, tensor: Tensor, *, seed: int | None = None) -> bytes:
        """Compress a tensor; `seed` fixes the randomness of codecs that have any."""
        ...

    def decode(self, blob: bytes, *, out: Tensor | None = None) -> Tensor:
        """Restore a tensor."""
        ...

    def get_config(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary for :func:`codec_from_config`."""
        ...


@dataclass(frozen=True, kw_only=True)
class _FrozenCodec:
    """The part of a codec that follows from its fields."""

    name: ClassVar[str]
    is_lossless: ClassVar[bool] = False
    short_option: ClassVar[str] = "bits"  # what follows the colon of a short spelling

    def get_config(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary for :func:`codec_from_config`."""
        return {"codec": self.name, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class Ecuq(_FrozenCodec):
    """ECUQ with fixed options; see :func:`docofl_codec.ecuq.encode`.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import Ecuq
    >>> codec = Ecuq(bits=4)
    >>> codec.decode(codec.encode(np.ones(3, dtype=np.float32)))
    array([1., 1., 1.], dtype=float32)
    """

    name: ClassVar[str] = "ecuq"
    bits: float = 2.0
    budget: ecuq.Budget = "bytes"
    tolerance: float = ecuq.DEFAULT_TOLERANCE
    quality: ecuq.Quality = "fast"
    coder: ecuq.Coder | None = None
    threads: int | None = None

    def encode(self, tensor: Tensor, *, seed: int | None = None) -> bytes:  # noqa: ARG002
        """Compress a tensor; ECUQ has no randomness and ignores `seed`."""
        return ecuq.encode(
            tensor,
            bits=self.bits,
            budget=self.budget,
            tolerance=self.tolerance,
            quality=self.quality,
            coder=self.coder,
            threads=self.threads,
        )

    def decode(self, blob: bytes, *, out: Tensor | None = None) -> Tensor:
        """Restore a tensor."""
        return ecuq.decode(blob, out=out, threads=self.threads)


@dataclass(frozen=True, kw_only=True)
class Eden(_FrozenCodec):
    """EDEN with fixed options; see :func:`docofl_codec.eden.encode`.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import Eden
    >>> codec = Eden(bits=4)
    >>> codec.encode(np.ones(3, dtype=np.float32), seed=1) == codec.encode(
    ...     np.ones(3, dtype=np.float32), seed=1
    ... )
    True
    """

    name: ClassVar[str] = "eden"
    bits: float = 1.0
    scale: eden.Scale = "unbiased"
    entropy_coded: bool = False
    threads: int | None = None

    def encode(self, tensor: Tensor, *, seed: int | None = None) -> bytes:
        """Compress a tensor; `seed` fixes the rotation, a fresh one is taken by default."""
        return eden.encode(
            tensor,
            bits=self.bits,
            seed=seed,
            scale=self.scale,
            entropy_coded=self.entropy_coded,
            threads=self.threads,
        )

    def decode(self, blob: bytes, *, out: Tensor | None = None) -> Tensor:
        """Restore a tensor."""
        return eden.decode(blob, out=out, threads=self.threads)

    def accumulator(self, shape: Sequence[int]) -> eden.Accumulator:
        """Return a running mean of frames of one shape."""
        return eden.Accumulator(shape, threads=self.threads)


@dataclass(frozen=True, kw_only=True)
class Identity(_FrozenCodec):
    """No compression: the exact values in a frame."""

    name: ClassVar[str] = "identity"
    is_lossless: ClassVar[bool] = True
    threads: int | None = None

    def encode(self, tensor: Tensor, *, seed: int | None = None) -> bytes:  # noqa: ARG002
        """Wrap a tensor; `seed` is ignored."""
        raw = as_raw(tensor)
        threads = check_threads(self.threads)
        return _core.identity_encode(raw.data, raw.dtype, raw.shape, raw.flags, threads)

    def decode(self, blob: bytes, *, out: Tensor | None = None) -> Tensor:
        """Restore a tensor."""
        return frame._decode(blob, self.name, out, None, None, None, self.threads)


_CODECS: dict[str, type[Any]] = {"ecuq": Ecuq, "eden": Eden, "identity": Identity}


def register_codec(codec: type[_FrozenCodec]) -> None:
    """Make a codec known to :func:`codec_from_config` and :func:`make_codec`."""
    _CODECS[codec.name] = codec


def codec_names() -> tuple[str, ...]:
    """Return the names of all codecs."""
    return tuple(_CODECS)


def codec_from_config(config: Mapping[str, Any]) -> Codec:
    """Build a codec from what :meth:`Codec.get_config` returned.

    Examples
    --------
    >>> from docofl_codec import Ecuq, codec_from_config
    >>> codec_from_config(Ecuq(bits=3).get_config()) == Ecuq(bits=3)
    True
    """
    options = dict(config)
    name = options.pop("codec", None)
    if name not in _CODECS:
        raise InvalidInputError(f"codec: found {name!r}, expected one of {', '.join(_CODECS)}")
    try:
        codec: Codec = _CODECS[name](**options)
    except TypeError as error:
        raise InvalidInputError(f"options of {name}: {error}") from None
    return codec


_VARIANTS: dict[str, dict[str, Any]] = {
    "ecuq-best": {"codec": "ecuq", "quality": "best"},
    "ecuq-rans": {"codec": "ecuq", "coder": "rans"},
}


def make_codec(spelling: str) -> Codec:
    """Build a codec from its short spelling, ``name`` or ``name:bits``.

    What follows the colon is the fraction of coordinates that are kept for ``topk`` and ``randk``.
    ``ecuq-best`` is ECUQ with ``quality="best"``, ``ecuq-rans`` with ``coder="rans"``.

    Examples
    --------
    >>> from docofl_codec import make_codec
    >>> make_codec("ecuq:1.5").get_config()["bits"]
    1.5
    """
    name, separator, value = spelling.partition(":")
    config: dict[str, Any] = {"codec": name}
    if name in _VARIANTS:
        config = _VARIANTS[name]
    if not separator:
        return codec_from_config(config)
    try:
        option = _CODECS[name].short_option if name in _CODECS else "bits"
        return codec_from_config({**config, option: float(value)})
    except ValueError as error:
        message = f'codec: found {spelling!r}, expected "name:bits"; {error}'
        raise InvalidInputError(message) from None
