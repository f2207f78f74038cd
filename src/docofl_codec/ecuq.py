"""ECUQ: uniform quantization under an entropy or byte budget, then Huffman coding or rANS.

Algorithm 3 of the DoCoFL paper. Its symbols here: the budget b is `bits`, epsilon is `tolerance`,
K is the number of levels and Delta their distance, `step`. A readable twin in NumPy is
:mod:`docofl_codec.reference.ecuq`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from docofl_codec import _core
from docofl_codec._buffers import ByteRoom, Framework, RawTensor, Tensor, as_raw, check_threads
from docofl_codec._core import RateModel as RateModel
from docofl_codec.errors import InvalidInputError
from docofl_codec.frame import _decode

__all__ = ["DEFAULT_BITS", "DEFAULT_TOLERANCE", "Budget", "Coder", "Quality", "decode", "encode"]

Budget = Literal["bytes", "entropy"]
Coder = Literal["huffman", "rans", "auto"]
Quality = Literal["fast", "best"]


class Coding(TypedDict):
    """How levels are chosen and coded."""

    quality: Quality
    coder: Coder | None


DEFAULT_BITS = 2.0
DEFAULT_TOLERANCE = 0.01

CODERS = ("huffman", "rans", "auto")  # as the core numbers them


def encode(
    tensor: Tensor,
    *,
    bits: float | None = None,
    step: float | None = None,
    budget: Budget = "bytes",
    tolerance: float = DEFAULT_TOLERANCE,
    quality: Quality = "fast",
    coder: Coder | None = None,
    centroids: bool | None = None,
    threads: int | None = None,
) -> bytes:
    """Compress a tensor to about `bits` bits a coordinate, or to levels at a distance of `step`.

    Values become levels, one for each of K equal bins as narrow as the budget allows. Levels are
    the centres of their bins or, at small budgets, the means of the values there, so that
    ``|x - x_hat|`` is at most half a step, or a step where :func:`docofl_codec.inspect` says
    ``centroids``, plus a hundredth of a step and the rounding of the dtype. A tensor of at most 256
    different values is kept exactly where that meets the budget. With `step` levels are its
    multiples, as many as are needed.

    Parameters
    ----------
    tensor : numpy.ndarray or torch.Tensor
        float32, float64, float16 or bfloat16, of any shape, finite. float64 is rounded to float32
        first. A contiguous float32 tensor is not copied.
    bits : float, optional
        The budget in bits a coordinate, 0.01 to 32, by default 2; fractions and less
        than 1 are fine.
    step : float, optional
        Instead of a budget: the distance of levels, for an error bound or for several tensors with
        the same precision. Needs no search; the range of the values may be at most 2^30 steps.
        `bits`, `budget` and `tolerance` do not go with it.
    budget : {"bytes", "entropy"}
        ``"bytes"``: ``8 * len(blob) <= bits * size + 8 * (64 + 10 * ndim)``, always.
        ``"entropy"``: the paper's rule, where the entropy of the quantized values meets the budget
        and bytes may exceed it.
    tolerance : float, default 0.01
        A search may stop when it is this close below the budget (the paper uses 0.1), or, on a
        large tensor, when one level more might exceed it.
    quality : {"fast", "best"}
        ``"best"``: dependent quantization, 10 to 27 % less squared error for the same bytes, and
        more where neighbours resemble each other, as in filters: runs of them are coded together.
        Encodes 13 to 40 times slower, decodes about as fast, or at a seventh to a half of the speed
        where runs are coded together, and takes a byte of memory a value, or five there, up to 2^25
        values. Values come back within 8 steps (32 where runs are coded together), most within one,
        and may lie up to as many beyond the extremes; ``budget="entropy"`` does not go with it.
        Tensors of fewer than 1,024 values are coded as with ``"fast"``.
    coder : {"huffman", "rans", "auto"}, optional
        What codes the levels of ``"fast"``: by default ``"huffman"``, the quickest, with codes of
        their own for parts of a tensor of 262,144 values or more whose spread differs. ``"rans"``
        comes within a hundredth of a bit of the entropy at any rate, with smaller parts: for the
        same bytes 2 to 4 % less squared error on normal values, 4 to 7 % on the weights of an LSTM,
        far less below 1 bit. Encodes 5 to 15 times slower, decodes at two thirds of the speed or
        more; far outliers come back exactly. Tensors of fewer than 1,024 values, of few different
        values or with many more than 128 levels get Huffman codes anyway. ``"auto"`` tries both and
        keeps the better one (the smaller one with a `step`). ``"best"`` always has rANS.
    centroids : bool, optional
        Whether levels of ``"fast"`` may lie at the means of their values instead of the centres of
        their bins: a tenth less squared error at 2 bits, and values within a step instead of half
        a step. By default with a budget in bytes, not with a `step`.
    threads : int, optional
        Threads to use at most; by default OpenMP's number. The bytes do not depend on it.

    Returns
    -------
    bytes
        A self-describing frame for :func:`decode`, :func:`docofl_codec.decode` and
        :func:`docofl_codec.inspect`.

    Raises
    ------
    InvalidInputError
        Where a value is NaN, infinite or, in float64, beyond float32, or an option is out of range.
    TypeError
        Where `tensor` is no floating-point tensor.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import ecuq
    >>> x = np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32)
    >>> blob = ecuq.encode(x, bits=2)
    >>> x_hat = ecuq.decode(blob)
    >>> 8 * len(blob) / x.size < 2.1, bool(np.mean((x - x_hat) ** 2) < 0.13)
    (True, True)
    """
    if budget not in ("bytes", "entropy"):
        raise InvalidInputError(f'budget: found {budget!r}, expected "bytes" or "entropy"')
    return encode_raw(
        as_raw(tensor),
        bits=bits,
        step=step,
        budget=budget,
        tolerance=tolerance,
        quality=quality,
        coder=coder,
        centroids=centroids,
        threads=threads,
    )


def check_quality(quality: Quality) -> None:
    """Raise where `quality` is not one of its values."""
    if quality not in ("fast", "best"):
        raise InvalidInputError(f'quality: found {quality!r}, expected "fast" or "best"')


def check_coder(coder: Coder | None, quality: Quality) -> None:
    """Raise where `coder` is not one of its values, or does not go with the quality."""
    if coder is None:
        return
    if coder not in CODERS:
        raise InvalidInputError(f'coder: found {coder!r}, expected "huffman", "rans" or "auto"')
    if coder == "huffman" and quality == "best":
        raise InvalidInputError(
            'coder: found "huffman" with quality "best", expected "rans" or "auto"'
        )


def encode_raw(
    raw: RawTensor,
    *,
    bits: float | None = None,
    step: float | None = None,
    budget: Budget = "bytes",
    tolerance: float = DEFAULT_TOLERANCE,
    quality: Quality = "fast",
    coder: Coder | None = None,
    centroids: bool | None = None,
    threads: int | None = None,
) -> bytes:
    """Do what :func:`encode` does, for memory that has no tensor around it."""
    check_quality(quality)
    check_coder(coder, quality)
    if step is not None:
        if bits is not None or budget != "bytes":
            raise InvalidInputError("step: found a budget beside it, expected one of the two")
        if not 0 < step < float("inf"):
            raise InvalidInputError(f"step: found {step}, expected a positive, finite number")
    return _core.ecuq_encode(
        raw.data,
        raw.dtype,
        raw.shape,
        raw.flags,
        DEFAULT_BITS if bits is None else bits,
        tolerance,
        budget == "entropy",
        check_threads(threads),
        0.0 if step is None else step,
        quality == "best",
        step is None if centroids is None else centroids,
        0 if coder is None else CODERS.index(coder),
    )


def rate_model(*, quality: Quality, coder: Coder | None, threads: int | None) -> RateModel:
    """Return an estimate, still without a sample, of what frames of a step would take."""
    number = 0 if coder is None else CODERS.index(coder)
    return RateModel(quality == "best", number, check_threads(threads))


def encode_frames(
    raws: Sequence[RawTensor],
    *,
    step: float,
    quality: Quality,
    coder: Coder | None,
    threads: int | None,
    out: ByteRoom,
    most: int,
) -> list[int]:
    """Append the frames of flat tensors with one step to `out`, and return their sizes.

    They are those of :func:`encode_raw` with ``centroids=True``, coded side by side, so that small
    ones need not wait for each other. Nothing is appended where they take more than `most` bytes.
    """
    return _core.ecuq_encode_frames(
        [(raw.data, raw.dtype) for raw in raws],
        step,
        quality == "best",
        0 if coder is None else CODERS.index(coder),
        check_threads(threads),
        out,
        max(most, 0),
    )


def decode(
    blob: bytes,
    *,
    out: Tensor | None = None,
    framework: Framework | None = None,
    expected_shape: Sequence[int] | None = None,
    max_output_bytes: int | None = None,
    threads: int | None = None,
) -> Tensor:
    """Restore a tensor from a frame of :func:`encode`; frames of other codecs are refused.

    Parameters are those of :func:`docofl_codec.decode`.
    """
    return _decode(blob, "ecuq", out, framework, expected_shape, max_output_bytes, threads)
