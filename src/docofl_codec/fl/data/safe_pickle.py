"""Plain values and NumPy arrays from a pickle stream, without executing anything of it.

The streams that the community exchanges (CIFAR's python version) hold dictionaries, lists,
strings, integers and arrays. An interpreter of just these opcodes builds them; names in the stream
are looked up in a fixed table, never imported, and every other opcode or name is refused.
"""

from __future__ import annotations

import math
import pickletools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from docofl_codec.fl.data.files import DataFormatError, shorten

__all__ = ["read_plain_values"]

# CIFAR's batches are three deep and have arrays of two dimensions.
MAX_DEPTH = 32
MAX_DIMS = 8
MAX_SIDE = 1 << 40
DTYPE_CODE = re.compile(r"[biuf][0-9]{1,2}")
BYTE_ORDERS = ("|", "=", "<", ">")
CONTAINERS = (tuple, list, dict)


@dataclass(frozen=True)
class _Name:
    """A name of the table."""

    name: str


@dataclass
class _Dtype:
    """A dtype in the making: its code, and the byte order that BUILD brings."""

    code: str
    order: str = "|"

    def __post_init__(self) -> None:
        if DTYPE_CODE.fullmatch(self.code) is None:
            raise DataFormatError(f"array: found dtype {shorten(self.code)!r}, expected numbers")

    def set_order(self, order: str) -> None:
        if order not in BYTE_ORDERS:
            raise DataFormatError(
                f"array: found byte order {shorten(order)!r}, "
                f"expected one of {' '.join(BYTE_ORDERS)}"
            )
        self.order = order

    def make(self) -> np.dtype[Any]:
        return np.dtype(self.code if self.order == "|" else self.order + self.code)


@dataclass
class _Array:
    """An array in the making."""

    values: np.ndarray[Any, Any] | None = None


_MARK = object()

_NAMES = {
    "numpy.core.multiarray _reconstruct": "reconstruct",
    "numpy._core.multiarray _reconstruct": "reconstruct",
    "numpy.core.numeric _frombuffer": "frombuffer",
    "numpy._core.numeric _frombuffer": "frombuffer",
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "_codecs encode": "encode",
}


def read_plain_values(content: bytes) -> Any:
    """Return the value of a pickle stream that holds plain values and arrays of numbers.

    Strings of Python 2 come as bytes. Arrays are found at the top and as values of a dictionary at
    the top, not deeper. Keys are strings, bytes or integers. The memory taken is in proportion to
    the stream.

    Raises
    ------
    DataFormatError
        Where the stream is damaged or holds anything else.
    """
    try:
        return _Machine().run(content)
    except DataFormatError:
        raise
    except (
        AttributeError,
        IndexError,
        KeyError,
        LookupError,
        MemoryError,
        OverflowError,
        RecursionError,
        TypeError,
        UnicodeError,
        ValueError,
    ) as error:
        found = shorten(str(error) or type(error).__name__)
        raise DataFormatError(f"pickle: found {found}, expected a whole stream") from error


class _Machine:
    """The stack machine of the format, reduced to what plain values need.

    A container within another takes no more items. So its depth is known when it is put there, and
    no order of opcodes nests deeper than the bound.
    """

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        # By id; entries of containers that are gone are replaced when a new one takes their place.
        self.depths: dict[int, int] = {}
        self.within: set[int] = set()
        self.encodable = 0

    def run(self, content: bytes) -> Any:
        self.encodable = len(content)
        for opcode, argument, position in pickletools.genops(content):
            if opcode.name == "STOP":
                value = self.stack.pop()
                if isinstance(value, dict):
                    return {key: _finish(item) for key, item in value.items()}
                return _finish(value)
            action = _ACTIONS.get(opcode.name)
            if action is None:
                raise DataFormatError(
                    f"pickle: found {opcode.name} at byte {position}, expected plain values"
                )
            action(self, argument)
        raise DataFormatError("pickle: found no end, expected STOP")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def push_container(
        self, container: tuple[Any, ...] | list[Any] | dict[Any, Any], items: Iterable[Any] = ()
    ) -> None:
        """Push a new container that holds these items."""
        self.depths[id(container)] = 1
        self.within.discard(id(container))
        self.note_items(container, items)
        self.push(container)

    def note_items(self, container: object, items: Iterable[Any]) -> None:
        """Keep account of what a container holds; refuse nests that are too deep."""
        depth = self.depths[id(container)]
        for item in items:
            if isinstance(item, CONTAINERS):
                depth = max(depth, 1 + self.depths[id(item)])
                self.within.add(id(item))
        if depth > MAX_DEPTH:
            raise DataFormatError(
                f"pickle: found values nested {depth} deep, expected at most {MAX_DEPTH}"
            )
        self.depths[id(container)] = depth

    def check_open(self, container: object) -> None:
        if id(container) in self.within:
            raise DataFormatError(
                "pickle: found more items of a value within another, expected whole values"
            )

    def pop_to_mark(self) -> list[Any]:
        start = len(self.stack) - 1
        while self.stack[start] is not _MARK:
            start -= 1
        items = self.stack[start + 1 :]
        del self.stack[start:]
        return items

    def pop_tuple(self, size: int) -> None:
        items = tuple(self.stack[len(self.stack) - size :])
        del self.stack[len(self.stack) - size :]
        self.push_container(items, items)

    def name(self, text: str) -> None:
        if text not in _NAMES:
            raise DataFormatError(
                f"pickle: found the name {shorten(text)!r}, expected arrays alone"
            )
        self.push(_Name(_NAMES[text]))

    def stack_name(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if not isinstance(module, str) or not isinstance(name, str):
            raise DataFormatError(
                f"pickle: found a name of {type(module).__name__} and {type(name).__name__}, "
                "expected strings"
            )
        self.name(f"{module} {name}")

    def push_dict(self, items: list[Any]) -> None:
        self.push_container({})
        self.set_items(items)

    def push_tuple(self, items: list[Any]) -> None:
        self.push_container(tuple(items), items)

    def push_list(self, items: list[Any]) -> None:
        self.push_container(items, items)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise DataFormatError("pickle: found items of no dictionary, expected one")
        self.check_open(target)
        self.note_items(target, items)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | bytes | int):
                raise DataFormatError(
                    f"pickle: found a key of type {type(key).__name__}, "
                    "expected strings, bytes or integers"
                )
            target[key] = value

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise DataFormatError("pickle: found items of no list, expected one")
        self.check_open(target)
        self.note_items(target, items)
        target.extend(items)

    def reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        match function, arguments:
            case _Name("reconstruct"), (_Name("ndarray"), _, _):
                self.push(_Array())
            case (
                _Name("frombuffer"),
                (bytes() | bytearray() as data, _Dtype() as dtype, tuple() as shape, order),
            ):
                self.push(_Array(_make_array(shape, dtype.make(), order == "F", data)))
            case _Name("dtype"), (str() | bytes() as code, *_):
                self.push(_Dtype(code.decode("ascii") if isinstance(code, bytes) else code))
            case _Name("encode"), (str() as text, "latin1" | b"latin1"):
                self.push(self.encode(text))
            case _:
                raise DataFormatError("pickle: found a call, expected arrays alone")

    def encode(self, text: str) -> bytes:
        """Return a string as bytes; all of them together are no more than the stream."""
        self.encodable -= len(text)
        if self.encodable < 0:
            raise DataFormatError("pickle: found a string encoded again, expected it once")
        return text.encode("latin-1")

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        match target, state:
            case _Dtype(), (_, str() | bytes() as order, *_):
                target.set_order(order.decode("ascii") if isinstance(order, bytes) else order)
            case _Array(), (_, tuple() as shape, _Dtype() as dtype, fortran, bytes() as data):
                target.values = _make_array(shape, dtype.make(), bool(fortran), data)
            case _:
                raise DataFormatError("pickle: found a state, expected that of an array")


def _make_array(
    shape: tuple[Any, ...], dtype: np.dtype[Any], fortran: bool, data: bytes | bytearray
) -> np.ndarray[Any, Any]:
    if len(shape) > MAX_DIMS:
        raise DataFormatError(f"array: found {len(shape)} dimensions, expected at most {MAX_DIMS}")
    if not all(type(side) is int and 0 <= side < MAX_SIDE for side in shape):
        raise DataFormatError(
            f"array: found a shape of other values, expected integers from 0 to {MAX_SIDE - 1}"
        )
    if math.prod(shape) * dtype.itemsize != len(data):
        raise DataFormatError(f"array: found {len(data)} bytes, expected shape {shape} of {dtype}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _finish(value: Any) -> Any:
    """Return the array of one in the making, anything else as it is."""
    if isinstance(value, _Array) and value.values is not None:
        return value.values
    if isinstance(value, _Array | _Dtype | _Name) or value is _MARK:
        raise DataFormatError("pickle: found an unfinished value, expected a whole one")
    return value


def _latin1(machine: _Machine, text: str) -> None:
    machine.push(text.encode("latin-1"))


def _push(machine: _Machine, value: Any) -> None:
    machine.push(value)


def _recall(machine: _Machine, index: int) -> None:
    machine.push(machine.memo[index])


def _keep(machine: _Machine, index: int) -> None:
    machine.memo[index] = machine.stack[-1]


def _skip(machine: _Machine, argument: Any) -> None:
    del machine, argument


_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": _skip,
    "FRAME": _skip,
    "MARK": lambda machine, _: machine.push(_MARK),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "INT": _push,
    "BININT": _push,
    "BININT1": _push,
    "BININT2": _push,
    "LONG": _push,
    "LONG1": _push,
    "STRING": _latin1,
    "BINSTRING": _latin1,
    "SHORT_BINSTRING": _latin1,
    "UNICODE": _push,
    "BINUNICODE": _push,
    "SHORT_BINUNICODE": _push,
    "BINBYTES": _push,
    "BINBYTES8": _push,
    "SHORT_BINBYTES": _push,
    "BYTEARRAY8": _push,
    "EMPTY_DICT": lambda machine, _: machine.push_container({}),
    "EMPTY_LIST": lambda machine, _: machine.push_container([]),
    "EMPTY_TUPLE": lambda machine, _: machine.push_container(()),
    "TUPLE": lambda machine, _: machine.push_tuple(machine.pop_to_mark()),
    "TUPLE1": lambda machine, _: machine.pop_tuple(1),
    "TUPLE2": lambda machine, _: machine.pop_tuple(2),
    "TUPLE3": lambda machine, _: machine.pop_tuple(3),
    "DICT": lambda machine, _: machine.push_dict(machine.pop_to_mark()),
    "LIST": lambda machine, _: machine.push_list(machine.pop_to_mark()),
    "APPEND": lambda machine, _: machine.append([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.append(machine.pop_to_mark()),
    "SETITEM": lambda machine, _: machine.set_items([machine.stack.pop(-2), machine.stack.pop()]),
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_to_mark()),
    "PUT": _keep,
    "BINPUT": _keep,
    "LONG_BINPUT": _keep,
    "MEMOIZE": lambda machine, _: _keep(machine, len(machine.memo)),
    "GET": _recall,
    "BINGET": _recall,
    "LONG_BINGET": _recall,
    "GLOBAL": lambda machine, text: machine.name(text),
    "STACK_GLOBAL": lambda machine, _: machine.stack_name(),
    "REDUCE": lambda machine, _: machine.reduce(),
    "BUILD": lambda machine, _: machine.build(),
}
