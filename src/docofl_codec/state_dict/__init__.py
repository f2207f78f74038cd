"""Whole models: the named tensors of a state dict in one run of bytes, within one budget.

The layout of the bytes is docs/format.md, section 10; files are :mod:`docofl_codec.files`.

>>> import numpy as np
>>> from docofl_codec import decode_state_dict, encode_state_dict
>>> rng = np.random.default_rng(0)
>>> model = {
...     "layer.weight": rng.normal(size=(300, 200)).astype(np.float32),
...     "layer.bias": rng.normal(size=300).astype(np.float32),
...     "steps": np.array(17),
... }
>>> blob = encode_state_dict(model, bits=2)
>>> 8 * len(blob) <= 2 * sum(tensor.size for tensor in model.values())
True
>>> restored = decode_state_dict(blob)
>>> list(restored), int(restored["steps"])
(['layer.weight', 'layer.bias', 'steps'], 17)
"""

from __future__ import annotations

from collections.abc import Mapping

from docofl_codec import ecuq
from docofl_codec._buffers import Framework, Tensor, as_blob, check_threads
from docofl_codec.state_dict.reader import MemoryBytes, StateDictReader, choose_framework
from docofl_codec.state_dict.report import StateDictInfo, TensorReport, compare, describe
from docofl_codec.state_dict.rules import Choice, Rules
from docofl_codec.state_dict.sink import MemorySink
from docofl_codec.state_dict.source import MappingSource
from docofl_codec.state_dict.tensors import TensorSpec
from docofl_codec.state_dict.writer import write_state_dict

__all__ = [
    "Choice",
    "Rules",
    "StateDictInfo",
    "TensorReport",
    "TensorSpec",
    "decode_state_dict",
    "encode_state_dict",
    "inspect_state_dict",
    "report_state_dict",
]


def encode_state_dict(
    tensors: Mapping[str, Tensor],
    *,
    bits: float = 2.0,
    quality: ecuq.Quality = "fast",
    coder: ecuq.Coder | None = None,
    flatten: bool = False,
    rules: Rules | None = None,
    threads: int | None = None,
) -> bytes:
    """Compress the tensors of a model to `bits` bits a coordinate, all things included.

    Large floating-point tensors are coded by ECUQ with one step for all, so that bits go where the
    error is, and with statistics of their own. Small and sensitive ones (biases, norms, running
    statistics) are kept at 16 bits, others that are no floating-point numbers exactly. Tied tensors
    are stored once.

    Parameters
    ----------
    tensors : mapping of str to numpy.ndarray or torch.Tensor
        A state dict. Any real, integer, bool or complex dtype, any shape, any order.
    bits : float, default 2
        The budget of the whole frame in bits a coordinate, 0.01 to 64: ``8 * len(blob) <= bits *
        size``, where size counts the coordinates of all tensors, tied ones once. Where that is
        small, 128 bytes and 64 bytes a tensor, its name and 10 bytes a dimension come on top, if
        they are more than a quarter of it.
    quality : {"fast", "best"}
        That of :func:`docofl_codec.ecuq.encode` for the tensors that are coded.
    coder : {"huffman", "rans", "auto"}, optional
        The same.
    flatten : bool, default False
        The paper's way: all floating-point tensors as one flat vector, none of them kept.
    rules : mapping or callable, optional
        Overrides what is kept: patterns of names (as in :mod:`fnmatch`, first match wins) to
        ``"code"``, ``"half"`` (16 bits) or ``"exact"``; or a function from :class:`TensorSpec` to
        one of these or None.
    threads : int, optional
        Threads to use at most. The bytes do not depend on it.

    Returns
    -------
    bytes
        For :func:`decode_state_dict` and :func:`inspect_state_dict`; also what a ``.docofl`` file
        holds.

    Raises
    ------
    InvalidInputError
        Where a tensor that is coded has values that are not finite (rules can keep it exactly), or
        what is kept exceeds the budget.
    TypeError
        Where a value is no tensor.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import encode_state_dict, inspect_state_dict
    >>> model = {"w": np.linspace(-1, 1, 50000, dtype=np.float32), "head.w": np.ones((50, 50))}
    >>> blob = encode_state_dict(model, bits=4, rules={"head.*": "half"}, flatten=True)
    >>> [report.store for report in inspect_state_dict(blob).tensors]
    ['coded', 'float16']
    """
    check_threads(threads)
    sink = MemorySink()
    source = MappingSource(tensors)
    write_state_dict(
        source,
        sink,
        bits=bits,
        quality=quality,
        coder=coder,
        flatten=flatten,
        rules=rules,
        threads=threads,
        in_memory=True,
    )
    return sink.getvalue()


def decode_state_dict(
    blob: bytes,
    *,
    framework: Framework | None = None,
    max_output_bytes: int | None = None,
    threads: int | None = None,
) -> dict[str, Tensor]:
    """Restore the tensors of :func:`encode_state_dict`: names, order, shapes and dtypes.

    Parameters
    ----------
    blob : bytes-like
        A whole state dict.
    framework : {"numpy", "torch"}, optional
        The container of the results. By default that of the encoded tensors; NumPy where torch has
        not been imported. NumPy has no bfloat16: without ml_dtypes it becomes float32.
    max_output_bytes : int, optional
        Refuse state dicts whose values need more memory, before it is taken.
    threads : int, optional
        Threads to use at most. The result does not depend on it.

    Returns
    -------
    dict
        In the order that was encoded. Tied tensors are one object.

    Raises
    ------
    CodecError
        Where the bytes are no valid state dict.
    """
    reader = StateDictReader(MemoryBytes(as_blob(blob)), threads=threads)
    choose_framework(framework, reader.from_torch)
    reader.check_limit(max_output_bytes)
    return dict(reader.tensors(framework))


def inspect_state_dict(blob: bytes) -> StateDictInfo:
    """Tell what a state dict holds and what its bytes are spent on, without decoding it.

    Raises
    ------
    CodecError
        Where the bytes are no valid state dict.
    """
    return describe(StateDictReader(MemoryBytes(as_blob(blob))))


def report_state_dict(
    tensors: Mapping[str, Tensor], blob: bytes, *, threads: int | None = None
) -> StateDictInfo:
    """Compare a state dict with what its bytes restore: bits, share and error, tensor by tensor.

    Parameters
    ----------
    tensors : mapping of str to numpy.ndarray or torch.Tensor
        The original.
    blob : bytes-like
        What :func:`encode_state_dict` made of it.
    threads : int, optional
        Threads to use at most.

    Returns
    -------
    StateDictInfo
        With errors.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import encode_state_dict, report_state_dict
    >>> model = {"w": np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32)}
    >>> report = report_state_dict(model, encode_state_dict(model, bits=4))
    >>> report.tensors[0].nmse < 0.01, report.tensors[0].bits <= 4
    (True, True)
    """
    reader = StateDictReader(MemoryBytes(as_blob(blob)), threads=threads)
    errors = list(compare(MappingSource(tensors), reader))
    return describe(reader, errors)
