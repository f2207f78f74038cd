"""Plain values and NumPy arrays from a pickle stream, without executing anything of it.

The streams that the community exchanges (CIFAR's python version) hold dictionaries, lists,
strings, integers and arrays. An interpreter of just these opcodes builds them; names in the stream
are looked up in a fixed table, never imported, and every other opcode or name is refused.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from docofl_codec.fl.data.files import DataFormatError

__all__ = ["read_plain_values"]


@dataclass(frozen=True)
class _Name:
    """A name of the table."""

    name: str


@dataclass
class _Dtype:
    """A dtype in the making: its code, and the byte order that BUILD brings."""

    code: str
    order: str = "|"

    def make(self) -> np.dtype[Any]:
        dtype = np.dtype(self.code if self.order == "|" else self.order + self.code)
        if dtype.kind not in "biuf":
            raise DataFormatError(f"array: found dtype {dtype}, expected numbers")
        return dtype


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
    the top, not deeper.

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
        OverflowError,
        TypeError,
        UnicodeError,
        ValueError,
    ) as error:
        raise DataFormatError(f"pickle: found {error}, expected a whole stream") from error


class _Machine:
    """The stack machine of the format, reduced to what plain values need."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
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
        self.push(items)

    def name(self, text: str) -> None:
        if text not in _NAMES:
            raise DataFormatError(f"pickle: found the name {text!r}, expected arrays alone")
        self.push(_Name(_NAMES[text]))

    def stack_name(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.name(f"{module} {name}")

    def push_dict(self, items: list[Any]) -> None:
        self.push({})
        self.set_items(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise DataFormatError("pickle: found items of no dictionary, expected one")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[key] = value

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise DataFormatError("pickle: found items of no list, expected one")
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
                self.push(_Array(_make_array(shape, dtype.make(), order == "F", bytes(data))))
            case _Name("dtype"), (str() | bytes() as code, *_):
                self.push(_Dtype(code.decode("ascii") if isinstance(code, bytes) else code))
            case _Name("encode"), (str() as text, "latin1" | b"latin1"):
                self.push(text.encode("latin-1"))
            case _:
                raise DataFormatError("pickle: found a call, expected arrays alone")

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        match target, state:
            case _Dtype(), (_, str() | bytes() as order, *_):
                target.order = order.decode("ascii") if isinstance(order, bytes) else order
            case _Array(), (_, tuple() as shape, _Dtype() as dtype, fortran, bytes() as data):
                target.values = _make_array(shape, dtype.make(), bool(fortran), data)
            case _:
                raise DataFormatError("pickle: found a state, expected that of an array")


def _make_array(
    shape: tuple[int, ...], dtype: np.dtype[Any], fortran: bool, data: bytes
) -> np.ndarray[Any, Any]:
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
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.pop_to_mark())),
    "TUPLE1": lambda machine, _: machine.pop_tuple(1),
    "TUPLE2": lambda machine, _: machine.pop_tuple(2),
    "TUPLE3": lambda machine, _: machine.pop_tuple(3),
    "DICT": lambda machine, _: machine.push_dict(machine.pop_to_mark()),
    "LIST": lambda machine, _: machine.push(machine.pop_to_mark()),
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
