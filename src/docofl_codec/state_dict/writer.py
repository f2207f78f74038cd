"""From tensors to the bytes of a state dict, within a budget.

1. Tensors that are kept go to raw sections. What is left of the budget is for the others.
2. A sample of these gives the step that would use it up.
3. Every large tensor becomes a frame with that step, in one pass and without a copy; small ones
   share frames.
4. If the bytes are too many, or far too few, what they were tells a better step: 3 again.

One flat vector, and a tensor of few different values, are left to the codec's own search.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec import ecuq
from docofl_codec._buffers import DTYPE_NAMES, RawTensor
from docofl_codec.errors import CodecError, InvalidInputError
from docofl_codec.state_dict.budget import allowance, budget_bytes
from docofl_codec.state_dict.halves import halve
from docofl_codec.state_dict.index import (
    ALIAS,
    CODED,
    DEFLATED,
    EXACT,
    FRAME,
    HEADER,
    RAW,
    Entry,
    Index,
    Section,
    write_entries,
    write_index,
)
from docofl_codec.state_dict.rate import sample_sizes
from docofl_codec.state_dict.rules import Choice, Rules, choose_stores
from docofl_codec.state_dict.search import StepSearch
from docofl_codec.state_dict.sink import Sink
from docofl_codec.state_dict.source import TensorSource
from docofl_codec.state_dict.tensors import CODED_DTYPES, Memory, TensorSpec, widen_bfloat16

__all__ = ["Progress", "write_state_dict"]

Progress = Callable[[int, int], None]  # coordinates done, and in all

MIN_BITS, MAX_BITS = 0.01, 64.0
MAX_ECUQ_BITS = 32.0
ALONE = 32_768  # coordinates for which a frame of its own pays
SHARED = 262_144  # coordinates of a frame that small tensors share
AT_ONCE = 1 << 24  # coordinates of tensors in memory that are coded together
POOL_BYTES = 1 << 22
DEFLATE_LEVEL = 1
LEAST_FRAME_BYTES = 64
PROMISED_BYTES = 74  # that a frame of one dimension may take beyond its bits
FEW_VALUES = 256
FEW_SAMPLE = 1024
BLOCK = 65_536
LEAST_BLOCK_BYTES = 9
MAX_LEVELS = 1 << 28  # on each side of zero


@dataclass
class _Pool:
    """Small tensors on their way to one raw section: their numbers, values and stores."""

    deflates: bool
    numbers: list[int] = field(default_factory=list)
    values: list[Memory] = field(default_factory=list)
    halved: list[int] = field(default_factory=list)  # places in the lists
    num_bytes: int = 0


@dataclass(frozen=True)
class _Frames:
    """What is to be coded: the tensors of each frame, and its coordinates.

    They come after so many bytes and sections, and have room for so many bytes.
    """

    groups: list[list[int]]
    sizes: list[int]
    mark: int
    kept: int
    room: int

    @property
    def total(self) -> int:
        """Coordinates of all frames."""
        return sum(self.sizes)


class _Writer:
    def __init__(
        self,
        source: TensorSource,
        sink: Sink,
        *,
        bits: float,
        flatten: bool,
        rules: Rules | None,
        threads: int | None,
        progress: Progress | None,
        quality: ecuq.Quality,
        coder: ecuq.Coder | None,
        in_memory: bool,
    ) -> None:
        self._coding: ecuq.Coding = {"quality": quality, "coder": coder}
        self._source = source
        self._specs = source.specs
        self._sink = sink
        self._bits = bits
        self._flatten = flatten
        self._threads = threads
        self._progress = progress
        self._in_memory = in_memory
        self._sections: list[Section] = []
        self._entries: dict[int, Entry] = {}
        self._entry_bytes: bytes | None = None
        self._size = sum(spec.size for spec in self._specs if not spec.alias_of)
        self._limit = budget_bytes(self._specs, bits)
        # What all tensors would take as they are, at most.
        self._exact_bytes = allowance(self._specs) + sum(
            spec.num_bytes for spec in self._specs if not spec.alias_of
        )
        self._stores = self._choose(rules)

    def _choose(self, rules: Rules | None) -> list[Choice]:
        if self._exact_bytes <= self._limit:
            return ["exact"] * len(self._specs)
        return choose_stores(
            self._specs,
            rules,
            flatten=self._flatten,
            bits=self._bits,
            budget_bytes=self._limit,
        )

    def run(self) -> Index:
        """Write everything."""
        self._sink.reserve(min(self._limit, self._exact_bytes))
        self._sink.write(HEADER)
        self._write_kept()
        groups = self._groups()
        if groups:
            self._write_coded(groups)
        index = self._index(self._sections)
        self._sink.write(write_index(index, self._entry_bytes))
        if self._sink.tell() > self._limit:
            raise self._too_small(self._sink.tell())
        return index

    def _index(self, sections: Sequence[Section]) -> Index:
        numbers = {spec.name: number for number, spec in enumerate(self._specs)}
        entries = []
        for number, spec in enumerate(self._specs):
            if spec.alias_of:
                entries.append(Entry(spec, ALIAS, numbers[spec.alias_of]))
            else:
                entries.append(self._entries[number])
        bits = min(self._bits, MAX_BITS)
        return Index(tuple(sections), tuple(entries), self._source.from_torch, self._flatten, bits)

    def _too_small(self, needed: int) -> InvalidInputError:
        least = 8 * needed / max(self._size, 1)
        return InvalidInputError(
            f"bits: found {self._bits:g}, a budget of {self._limit} bytes, expected about "
            f"{least:.3g} or more: what is kept exactly or at 16 bits, and the index, take the room"
        )

    # --- what is kept ----------------------------------------------------------------------------

    def _write_kept(self) -> None:
        pools = (_Pool(deflates=False), _Pool(deflates=True))
        for number, (spec, store) in enumerate(zip(self._specs, self._stores, strict=True)):
            if store == "code" or spec.alias_of:
                continue
            memory = self._source.load(number)
            pool = pools[spec.dtype not in CODED_DTYPES]
            if spec.num_bytes >= POOL_BYTES and pool.numbers:
                self._flush(pool)
            elif spec.num_bytes < POOL_BYTES and not self._in_memory:
                # So many small tensors need not be mapped at once.
                memory = Memory(memory.dtype, memory.flat.copy())
            if store == "half" and spec.dtype in ("float32", "float64"):
                pool.halved.append(len(pool.numbers))
            pool.numbers.append(number)
            pool.values.append(memory)
            pool.num_bytes += spec.num_bytes
            if pool.num_bytes >= POOL_BYTES:
                self._flush(pool)
        for pool in pools:
            if pool.numbers:
                self._flush(pool)

    def _flush(self, pool: _Pool) -> None:
        """Write a pool as one section, deflated where that is smaller."""
        stores = [EXACT] * len(pool.numbers)
        halves = halve([pool.values[place] for place in pool.halved])
        for place, (store, memory) in zip(pool.halved, halves, strict=True):
            stores[place], pool.values[place] = store, memory
        parts = [memory.as_bytes() for memory in pool.values]
        unpacked = sum(part.size for part in parts)
        kind: int = RAW
        # One that is large is alone.
        chunks: list[Any] = [
            parts[0].data if len(parts) == 1 else b"".join(part.data for part in parts)
        ]
        if pool.deflates:
            packed = _deflate(parts)
            if sum(map(len, packed)) < unpacked:
                kind, chunks = DEFLATED, packed
        checksum = size = 0
        for chunk in chunks:
            checksum = zlib.crc32(chunk, checksum)
            size += len(chunk)
            self._sink.write(chunk)
        for number, store in zip(pool.numbers, stores, strict=True):
            self._entries[number] = Entry(self._specs[number], store, len(self._sections))
        self._sections.append(Section(kind, size, checksum, unpacked))
        pool.numbers, pool.values, pool.halved, pool.num_bytes = [], [], [], 0

    # --- what is coded ---------------------------------------------------------------------------

    def _groups(self) -> list[list[int]]:
        """Return the tensors of each frame, in order."""
        groups: list[list[int]] = []
        open_groups: dict[str, tuple[list[int], int]] = {}
        for number, (spec, store) in enumerate(zip(self._specs, self._stores, strict=True)):
            if store != "code" or spec.alias_of:
                continue
            if spec.size >= ALONE and not self._flatten:
                groups.append([number])
                continue
            group, size = open_groups.get(spec.dtype, ([], 0))
            if not group:
                groups.append(group)
            group.append(number)
            size += spec.size
            full = size >= SHARED and not self._flatten
            open_groups[spec.dtype] = ([], 0) if full else (group, size)
        return groups

    def _write_coded(self, groups: list[list[int]]) -> None:
        kept = len(self._sections)
        for place, group in enumerate(groups, kept):
            for number in group:
                self._entries[number] = Entry(self._specs[number], CODED, place)
        mark = self._sink.tell()
        widest = self._index([*self._sections, *[Section(FRAME, self._limit)] * len(groups)])
        self._entry_bytes = write_entries(widest.entries)
        around = mark + len(write_index(widest, self._entry_bytes))
        room = self._limit - around
        sizes = [sum(self._specs[number].size for number in group) for group in groups]
        least = sum(LEAST_FRAME_BYTES + LEAST_BLOCK_BYTES * (size // BLOCK) for size in sizes)
        if room < least:
            raise self._too_small(around + least)
        frames = _Frames(groups, sizes, mark, kept, room)
        is_alone = len(groups) == 1 and (self._flatten or self._has_few_values(groups[0]))
        if not (is_alone and self._write_by_budgets(frames)):
            self._search(frames, around)

    def _write_by_budgets(self, frames: _Frames) -> bool:
        """Leave each frame to the codec's own search; tell whether the room is enough for that."""
        self._sink.cut(frames.mark)
        del self._sections[frames.kept :]
        room, left = frames.room, frames.total
        for group, size in zip(frames.groups, frames.sizes, strict=True):
            bits = min(8 * (room * size / left - PROMISED_BYTES) / size, MAX_ECUQ_BITS)
            if bits < MIN_BITS:
                return False
            blob = self._encode(group, bits=bits)
            self._sections.append(Section(FRAME, len(blob)))
            self._sink.write(blob)
            room, left = room - len(blob), left - size
            self._tell(frames.total - left, frames.total)
        return True

    def _has_few_values(self, group: list[int]) -> bool:
        """Tell whether the codec may be able to keep all values exactly."""
        seen: set[float] = set()
        for number in group:
            flat = self._source.load(number).flat
            seen.update(flat[:: max(1, flat.size // FEW_SAMPLE)].tolist())
        return len(seen) <= FEW_VALUES

    def _search(self, frames: _Frames, around: int) -> None:
        """Write frames of one step that fit their room."""
        total = frames.total
        model = self._sample(frames.groups)
        # What rare values take is not to be learned from a sample without them.
        if not model.has_range and self._write_by_budgets(frames):
            return
        search = StepSearch(model, 8 * frames.room / total, total)
        step: float | None = search.first()
        last, written = step, 0
        while step is not None:
            last = step
            written = self._write_frames(frames, step)
            search.add(step, 8 * written / total)
            step = search.next()
        if search.best is None:
            raise self._too_small(around + written)
        if search.best != last and self._write_frames(frames, search.best) > frames.room:
            raise InvalidInputError("tensors: changed while they were being encoded")

    def _sample(self, groups: list[list[int]]) -> ecuq.RateModel:
        """Return an estimate of what frames would take, from some values of every tensor."""
        members = [(frame, number) for frame, group in enumerate(groups) for number in group]
        counts = sample_sizes([self._specs[number].size for _, number in members])
        model = ecuq.rate_model(threads=self._threads, **self._coding)
        for (frame, number), count in zip(members, counts, strict=True):
            raw = _raw(self._source.load(number))
            model.add(frame, raw.data, raw.dtype, count)
        model.finish()
        return model

    def _write_frames(self, frames: _Frames, step: float) -> int:
        """Write all frames with a step as far as they fit; return the bytes that all take."""
        self._sink.cut(frames.mark)
        del self._sections[frames.kept :]
        done, total, used = 0, frames.total, 0
        for batch in self._batches(frames.sizes):
            taken = self._encode_frames(frames.groups[batch], step, frames.room - used)
            for size, num_bytes in zip(frames.sizes[batch], taken, strict=True):
                self._sections.append(Section(FRAME, num_bytes))
                used += num_bytes
                done += size
                self._tell(done, total)
        return used

    def _batches(self, sizes: list[int]) -> Iterator[slice]:
        """Cut frames into runs that are coded together.

        Between them signals are heard, and copies of tensors are let go.
        """
        most = max([AT_ONCE if self._in_memory else 0, *sizes])
        begin = held = 0
        for number, size in enumerate(sizes):
            if held + size > most:
                yield slice(begin, number)
                begin, held = number, 0
            held += size
        yield slice(begin, len(sizes))

    def _encode_frames(self, groups: list[list[int]], step: float, most: int) -> list[int]:
        """Write frames if they take at most so many bytes; return their sizes."""
        raws = [_raw(self._load(group)) for group in groups]
        room = self._sink.room()
        try:
            sizes = ecuq.encode_frames(
                raws, step=step, threads=self._threads, out=room, most=most, **self._coding
            )
        except CodecError:
            # Some tensor cannot have this step: it gets another, or the blame.
            blobs = [self._encode(group, step=step) for group in groups]
            sizes = [len(blob) for blob in blobs]
            if sum(sizes) <= most:
                for blob in blobs:
                    room.write(blob)
        self._sink.pass_on(room)
        return sizes

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)

    def _encode(self, group: list[int], **options: Any) -> bytes:
        """Return the frame of some tensors."""
        memory = self._load(group)
        try:
            return self._encode_memory(memory, options)
        except CodecError as error:
            raise self._blame(group, options, error) from None

    def _load(self, group: list[int]) -> Memory:
        """Return the values of a frame."""
        if len(group) == 1:
            return self._source.load(group[0])
        parts = [self._source.load(number).flat for number in group]
        return Memory(self._specs[group[0]].dtype, np.concatenate(parts))

    def _encode_memory(self, memory: Memory, options: dict[str, Any]) -> bytes:
        """Return a frame; one that cannot have a given step gets the finest that it can have."""

        def encode(options: dict[str, Any]) -> bytes:
            return ecuq.encode_raw(
                _raw(memory), threads=self._threads, centroids=True, **self._coding, **options
            )

        try:
            return encode(options)
        except CodecError as error:
            if "step" not in options or not str(error).startswith("step:"):
                raise
        return encode({"step": _widest_step(memory)})

    def _blame(
        self, group: list[int], options: dict[str, Any], error: CodecError
    ) -> InvalidInputError:
        """Return an error that names the tensor at fault."""
        for number in group:
            try:
                self._encode_memory(self._source.load(number), options)
            except CodecError as its_own:
                return InvalidInputError(f"tensor {self._specs[number].name!r}: {its_own}")
        return InvalidInputError(str(error))


def write_state_dict(
    source: TensorSource,
    sink: Sink,
    *,
    bits: float,
    quality: ecuq.Quality = "fast",
    coder: ecuq.Coder | None = None,
    flatten: bool = False,
    rules: Rules | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    in_memory: bool = False,
) -> Index:
    """Write a state dict; see :func:`docofl_codec.encode_state_dict`.

    `in_memory` says that the tensors are there anyway, so that more of them may be coded together
    than the largest frame has values.
    """
    if isinstance(bits, bool) or not isinstance(bits, (int, float, np.integer, np.floating)):
        raise TypeError(f"bits: found {type(bits).__qualname__}, expected a number")
    if not MIN_BITS <= bits <= MAX_BITS:
        raise InvalidInputError(f"bits: found {bits}, expected a number from 0.01 to 64")
    ecuq.check_quality(quality)
    ecuq.check_coder(coder, quality)
    _check_names(source.specs)
    writer = _Writer(
        source,
        sink,
        bits=float(bits),
        flatten=flatten,
        rules=rules,
        threads=threads,
        progress=progress,
        quality=quality,
        coder=coder,
        in_memory=in_memory,
    )
    return writer.run()


def _raw(memory: Memory) -> RawTensor:
    flat = np.ascontiguousarray(memory.flat)
    return RawTensor(flat, DTYPE_NAMES.index(memory.dtype), flat.shape, 0)


def _check_names(specs: Sequence[TensorSpec]) -> None:
    seen: set[str] = set()
    for spec in specs:
        if spec.name in seen:
            raise InvalidInputError(f"name {spec.name!r}: found twice, expected once")
        seen.add(spec.name)


def _widest_step(memory: Memory) -> float:
    """Return a step for values whose range is too large for that of the others."""
    flat = widen_bfloat16(memory.flat) if memory.dtype == "bfloat16" else memory.flat
    return (float(flat.max()) - float(flat.min())) / MAX_LEVELS


def _deflate(parts: Sequence[npt.NDArray[np.uint8]]) -> list[bytes]:
    packer = zlib.compressobj(DEFLATE_LEVEL, zlib.DEFLATED, -15)
    packed = [packer.compress(part.data) for part in parts]
    packed.append(packer.flush())
    return [chunk for chunk in packed if chunk]
