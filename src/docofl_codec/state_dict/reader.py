"""From the bytes of a state dict to tensors, one at a time.

Everything that the index claims is checked before memory is taken for it.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from docofl_codec import frame
from docofl_codec._buffers import (
    DTYPE_NAMES,
    Framework,
    Tensor,
    check_output_limit,
    check_threads,
    imported_torch,
)
from docofl_codec.errors import CodecError, CorruptFrameError, InvalidInputError
from docofl_codec.state_dict.index import (
    ALIAS,
    BFLOAT16,
    DEFLATED,
    EXACT,
    FRAME,
    HEADER,
    TRAILER_BYTES,
    Entry,
    Index,
    Section,
    parse_index,
    parse_trailer,
    stored_bytes,
)
from docofl_codec.state_dict.tensors import (
    Memory,
    TensorSpec,
    new_memory,
    stored_dtype,
    tensor_from,
    widen_bfloat16,
)

__all__ = ["ByteSource", "MemoryBytes", "StateDictReader"]


class ByteSource(Protocol):
    """Bytes at any place."""

    @property
    def size(self) -> int:
        """Return how many there are."""
        ...

    def read(self, place: int, size: int) -> bytes | memoryview:
        """Return those of a place; both are inside."""
        ...


class MemoryBytes:
    """Bytes in memory."""

    def __init__(self, blob: bytes | bytearray | memoryview) -> None:
        view = memoryview(blob)
        self._view = view.cast("B") if view.nbytes else memoryview(b"")  # no shape with a 0 is cast
        self.size = len(self._view)

    def read(self, place: int, size: int) -> memoryview:
        """Return a view."""
        return self._view[place : place + size]


class StateDictReader:
    """The tensors of a state dict; also a source of tensors, for files.

    Parameters
    ----------
    data : ByteSource
        Header, sections, index and trailer.
    threads : int, optional
        Threads to use at most.

    Raises
    ------
    CodecError
        Where the index is not valid. Sections are checked when they are read.
    """

    def __init__(self, data: ByteSource, *, threads: int | None = None) -> None:
        self._data = data
        self._threads = check_threads(threads)
        self.index = _read_index(data)
        self.num_bytes = data.size
        places = [len(HEADER)]
        for section in self.index.sections:
            places.append(places[-1] + section.num_bytes)
        self._places = places
        self._members: dict[int, list[int]] = defaultdict(list)
        for number, entry in enumerate(self.index.entries):
            if entry.store != ALIAS:
                self._members[entry.place].append(number)
        # Values that were decoded along with others, until they are asked for.
        self._waiting: dict[int, Memory] = {}

    @property
    def specs(self) -> Sequence[TensorSpec]:
        """Describe the tensors."""
        return [entry.spec for entry in self.index.entries]

    @property
    def from_torch(self) -> bool:
        """Tell whether they were torch's."""
        return self.index.from_torch

    @property
    def output_bytes(self) -> int:
        """Return the bytes of all values, tied ones once."""
        entries = self.index.entries
        return sum(entry.spec.num_bytes for entry in entries if entry.store != ALIAS)

    def frame_info(self, place: int) -> frame.FrameInfo:
        """Tell what the frame of a section says."""
        try:
            return frame.inspect(bytes(self._section(place)))
        except CodecError as error:
            raise type(error)(f"section {place}: {error}") from None

    def load(self, number: int) -> Memory:
        """Return the values of a tensor.

        Tensors that share a section are decoded together and wait for their turn.
        """
        entry = self.index.entries[number]
        if entry.store == ALIAS:
            return self.load(entry.place)
        if number not in self._waiting:
            try:
                self._decode(entry.place)
            except CodecError as error:
                raise type(error)(f"tensor {entry.spec.name!r}: {error}") from None
        return self._waiting.pop(number)

    def tensors(self, framework: Framework | None = None) -> Iterator[tuple[str, Tensor]]:
        """Yield names and tensors, in order; tied ones are one object."""
        framework = choose_framework(framework, self.from_torch)
        tied = {entry.place for entry in self.index.entries if entry.store == ALIAS}
        known: dict[int, Tensor] = {}
        for number, entry in enumerate(self.index.entries):
            if entry.store == ALIAS:
                yield entry.spec.name, known[entry.place]
                continue
            tensor = tensor_from(entry.spec, self.load(number), framework)
            if number in tied:
                known[number] = tensor
            yield entry.spec.name, tensor

    def check_limit(self, max_output_bytes: int | None, *, untied: bool = False) -> None:
        """Refuse values that need more memory, or more of a file that holds each tied tensor."""
        needed = sum(spec.num_bytes for spec in self.specs) if untied else self.output_bytes
        check_output_limit("the state dict needs", needed, max_output_bytes)

    def _section(self, place: int) -> bytes | memoryview:
        return self._data.read(self._places[place], self.index.sections[place].num_bytes)

    def _decode(self, place: int) -> None:
        section = self.index.sections[place]
        members = self._members[place]
        if section.kind == FRAME:
            self._decode_frame(place, members)
            return
        values = memoryview(_unpack(section, self._section(place)))
        at = 0
        for number in members:
            entry = self.index.entries[number]
            size = stored_bytes(entry)
            self._waiting[number] = _restore(entry, values[at : at + size])
            at += size

    def _decode_frame(self, place: int, members: Sequence[int]) -> None:
        specs = [self.index.entries[number].spec for number in members]
        parsed = frame.parse(self._section(place), self._threads)
        size = sum(spec.size for spec in specs)
        dtype = specs[0].dtype
        if parsed.size != size or DTYPE_NAMES[parsed.dtype] != dtype:
            raise CorruptFrameError(
                f"section {place}: found a frame of {parsed.size} values of "
                f"{DTYPE_NAMES[parsed.dtype]}, expected {size} of {dtype}"
            )
        memory = new_memory(dtype, size)
        frame.decode_memory(parsed, memory.flat, self._threads)
        if len(members) == 1:
            self._waiting[members[0]] = memory
            return
        at = 0
        for number, spec in zip(members, specs, strict=True):
            self._waiting[number] = Memory(dtype, memory.flat[at : at + spec.size].copy())
            at += spec.size


def choose_framework(framework: Framework | None, from_torch: bool) -> Framework:
    """Return the container of decoded tensors."""
    if framework not in (None, "numpy", "torch"):
        raise InvalidInputError(f'framework: found {framework!r}, expected "numpy" or "torch"')
    if framework is None:
        return "torch" if from_torch and imported_torch() is not None else "numpy"
    return framework


def _read_index(data: ByteSource) -> Index:
    header = bytes(data.read(0, min(len(HEADER), data.size)))
    size = min(TRAILER_BYTES, data.size)
    trailer = bytes(data.read(data.size - size, size))
    index_bytes = parse_trailer(header, trailer, data.size)
    body = bytes(data.read(data.size - TRAILER_BYTES - index_bytes, index_bytes))
    return parse_index(body, trailer, data.size)


def _unpack(section: Section, data: bytes | memoryview) -> bytes | memoryview:
    if zlib.crc32(data) != section.checksum:
        raise CorruptFrameError("checksum of a raw section: does not match its bytes")
    if section.kind != DEFLATED:
        return data
    unpacker = zlib.decompressobj(-15)
    try:
        values = unpacker.decompress(data, section.unpacked)
        if len(values) == section.unpacked and _is_finished(unpacker):
            return values
    except zlib.error as error:
        raise CorruptFrameError(f"deflated section: {error}") from None
    raise CorruptFrameError("deflated section: its length is not the declared one")


def _is_finished(unpacker: zlib._Decompress) -> bool:
    """Tell whether a stream ends here, with all of its input used."""
    rest = unpacker.decompress(unpacker.unconsumed_tail, 1)
    return not rest and unpacker.eof and not unpacker.unused_data


def _restore(entry: Entry, data: memoryview) -> Memory:
    """Return the values of a tensor that was kept, in its own dtype."""
    dtype = entry.spec.dtype
    if entry.store == EXACT:
        values = np.frombuffer(data, stored_dtype(dtype).newbyteorder("<"))
        if dtype == "bool" and values.size and values.max() > 1:
            raise CorruptFrameError(f"bool: found {values.max()}, expected 0 or 1")
        return Memory(dtype, values.astype(stored_dtype(dtype)))
    if entry.store == BFLOAT16:
        wide = widen_bfloat16(np.frombuffer(data, "<u2"))
    else:
        wide = np.frombuffer(data, "<f2").astype(np.float32)
    if dtype == "bfloat16":
        return Memory(dtype, (wide.view(np.uint32) >> 16).astype(np.uint16))
    with np.errstate(over="ignore"):
        return Memory(dtype, wide.astype(stored_dtype(dtype)))
