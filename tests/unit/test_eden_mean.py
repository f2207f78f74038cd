"""Means of EDEN's frames, all at once and one by one; a refused frame changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from docofl_codec import (
    CodecError,
    CorruptFrameError,
    Ecuq,
    Eden,
    InvalidInputError,
    LimitExceededError,
    TruncatedFrameError,
    UnsupportedFrameError,
    _core,
    decode,
    eden,
)
from docofl_codec.reference import eden as twin
from tests.helpers.data import Floats, lognormal, normal
from tests.helpers.frames import EdenPayload, payload_start, reseal

SIZE = 32_768 + 100  # two rotation blocks and a tail of four

CODECS = [
    *(Eden(bits=bits) for bits in (0.1, 0.5, 1, 1.5, 2, 3, 4, 5, 8)),
    Eden(bits=2, scale="mse"),
    *(Eden(bits=bits, entropy_coded=True) for bits in (1.5, 3)),
]


def frames(
    size: int = SIZE,
    seed_of: Callable[[int], int] = lambda number: number,
    dtype: npt.DTypeLike = np.float32,
) -> list[bytes]:
    """Return a frame of each codec, of other tensors, all of one size."""
    return [
        codec.encode((lognormal(size) * (number + 1)).astype(dtype), seed=seed_of(number))
        for number, codec in enumerate(CODECS)
    ]


def mean_of_decoded(blobs: list[bytes], weights: list[float] | None = None) -> Floats:
    decoded = np.stack([np.asarray(decode(blob, framework="numpy"), np.float64) for blob in blobs])
    shares = np.ones(len(blobs)) if weights is None else np.array(weights)
    return np.tensordot(shares / shares.sum(), decoded, axes=1).astype(np.float32)


def assert_close(found: Any, expected: Floats) -> None:
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    largest = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-5 * largest)


def damage_streams(blob: bytes) -> bytes:
    """Break the last code word of an entropy-coded frame, with a valid checksum."""
    for value in range(256):
        damaged = reseal(blob[:-5] + bytes([value]) + blob[-4:])
        try:
            decode(damaged)
        except CorruptFrameError:
            return damaged
    raise AssertionError("no byte does harm")


# decode_mean -------------------------------------------------------------------------------------


def test_mean_of_all_kinds() -> None:
    blobs = frames()
    assert_close(eden.decode_mean(blobs), mean_of_decoded(blobs))


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 63, 64, 100, 5000, 70_001])
def test_sizes(size: int) -> None:
    blobs = frames(size)
    assert_close(eden.decode_mean(blobs), mean_of_decoded(blobs))


@pytest.mark.parametrize("number", range(len(CODECS)))
def test_one_frame(number: int) -> None:
    blob = frames()[number]
    assert_close(eden.decode_mean([blob]), np.asarray(decode(blob)))


@pytest.mark.parametrize("seed_of", [lambda _: 3, lambda number: number % 3])
def test_shared_seeds(seed_of: Callable[[int], int]) -> None:
    """Levels of other widths are added before they are rotated back, together."""
    blobs = frames(seed_of=seed_of)
    assert_close(eden.decode_mean(blobs), mean_of_decoded(blobs))


def test_shared_seeds_of_very_different_norms() -> None:
    factors = [1e-30, 1e-3, 1.0, 1e30]
    blobs = [eden.encode(normal(1000) * np.float32(f), bits=2, seed=5) for f in factors]
    assert_close(eden.decode_mean(blobs), mean_of_decoded(blobs))
    assert_close(eden.decode_mean(blobs[:2]), mean_of_decoded(blobs[:2]))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_dtypes(dtype: npt.DTypeLike) -> None:
    """Single tensors are rounded to their dtype, the mean is not."""
    blobs = frames(1000, dtype=dtype)
    as_float32 = [reseal(blob[:5] + b"\0" + blob[6:]) for blob in blobs]
    assert_close(eden.decode_mean(blobs), mean_of_decoded(as_float32))


def test_mixed_dtypes() -> None:
    x = normal(1000)
    dtypes: list[npt.DTypeLike] = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
    blobs = [eden.encode(x.astype(dtype), bits=4, seed=i) for i, dtype in enumerate(dtypes)]
    mean = np.asarray(eden.decode_mean(blobs))
    assert mean.dtype == np.float32
    assert np.abs(mean - mean_of_decoded(blobs)).max() < 0.01


def test_shape_is_kept() -> None:
    x = normal(60).reshape(3, 4, 5)
    assert eden.decode_mean([eden.encode(x) for _ in range(3)]).shape == (3, 4, 5)
    scalar = np.float32(2.5).reshape(())
    assert np.asarray(eden.decode_mean([eden.encode(scalar)])).tolist() == 2.5
    assert eden.decode_mean([eden.encode(np.empty((0, 3), np.float32))]).shape == (0, 3)


def test_any_iterable() -> None:
    blobs = frames(100)
    expected = np.asarray(eden.decode_mean(blobs))
    assert np.array_equal(eden.decode_mean(blob for blob in blobs), expected)
    buffers: Any = [bytearray(blobs[0]), memoryview(blobs[1]), *blobs[2:]]
    assert np.array_equal(eden.decode_mean(buffers, weights=iter([1] * len(blobs))), expected)


def test_frames_that_are_given_twice() -> None:
    blob = frames()[2]
    assert_close(eden.decode_mean([blob] * 7), np.asarray(decode(blob)))


# Weights -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1, 1e-3, 1e6, 1e-300])
@pytest.mark.parametrize("seed_of", [lambda _: 3, lambda number: number])
def test_weights(factor: float, seed_of: Callable[[int], int]) -> None:
    blobs = frames(seed_of=seed_of)
    weights = [factor * (1 + number % 4) for number in range(len(blobs))]
    assert_close(eden.decode_mean(blobs, weights=weights), mean_of_decoded(blobs, weights))


def test_weight_zero() -> None:
    blobs = frames()
    weights = [0.0, 1.0, *[0.0] * (len(blobs) - 2)]
    assert_close(eden.decode_mean(blobs, weights=weights), np.asarray(decode(blobs[1])))


@pytest.mark.parametrize("weights", [[], [1], [1, 2, 3]])
def test_number_of_weights(weights: list[float]) -> None:
    with pytest.raises(InvalidInputError, match=r"weights: found .*, expected one for each of 2"):
        eden.decode_mean(frames(20)[:2], weights=weights)


@pytest.mark.parametrize(
    "weights", [[1, -1], [0, 0], [1, float("nan")], [float("inf"), 1], [-1, -1]]
)
def test_weights_that_make_no_mean(weights: list[float]) -> None:
    with pytest.raises(InvalidInputError, match=r"weight: found|weights: expected finite numbers"):
        eden.decode_mean(frames(20)[:2], weights=weights)


# Outputs -----------------------------------------------------------------------------------------


def test_out_is_filled_and_returned() -> None:
    blobs = frames()
    out = np.full(SIZE, np.nan, np.float32)
    assert eden.decode_mean(blobs, out=out) is out
    assert np.array_equal(out, eden.decode_mean(blobs))


def test_nothing_around_out_is_written() -> None:
    memory = np.full(SIZE + 2, 7, np.float32)
    eden.decode_mean(frames(), out=memory[1:-1])
    assert (memory[0], memory[-1]) == (7, 7)


@pytest.mark.parametrize(
    "out",
    [
        np.empty(20, np.float64),
        np.empty(20, np.float16),
        np.empty(19, np.float32),
        np.empty((1, 20), np.float32),
        np.empty(40, np.float32)[::2],
    ],
)
def test_out_that_does_not_fit(out: npt.NDArray[Any]) -> None:
    with pytest.raises(InvalidInputError, match="out: "):
        eden.decode_mean(frames(20), out=out)


def test_expected_shape_and_limits() -> None:
    blobs = frames(20)
    assert eden.decode_mean(blobs, expected_shape=(20,), max_output_bytes=80).shape == (20,)
    with pytest.raises(InvalidInputError, match=r"frame 0: shape: found \(20,\), expected \(21,\)"):
        eden.decode_mean(blobs, expected_shape=(21,))
    with pytest.raises(LimitExceededError, match="the frames need 80 bytes, expected at most 79"):
        eden.decode_mean(blobs, max_output_bytes=79)


def test_containers() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(normal(100))
    blobs = [eden.encode(x, bits=2, seed=seed) for seed in range(3)]
    mean: Any = eden.decode_mean(blobs)
    assert isinstance(mean, torch.Tensor)
    assert mean.dtype == torch.float32
    assert np.array_equal(eden.decode_mean(blobs, framework="numpy"), mean.numpy())
    from_numpy: Any = eden.decode_mean([eden.encode(x.numpy())], framework="torch")
    assert isinstance(from_numpy, torch.Tensor)
    out = torch.zeros(100)
    assert eden.decode_mean(blobs, out=out) is out
    assert torch.equal(out, mean)


@pytest.mark.parametrize("framework", ["jax", "", 1])
def test_unknown_framework(framework: Any) -> None:
    with pytest.raises(InvalidInputError, match="framework"):
        eden.decode_mean(frames(20), framework=framework)


# Frames that are refused -------------------------------------------------------------------------

BAD_FRAMES: dict[str, tuple[Callable[[bytes], bytes], type[CodecError]]] = {
    "checksum": (lambda blob: blob[:-1] + bytes([blob[-1] ^ 1]), CorruptFrameError),
    "truncated": (lambda blob: blob[:-10], TruncatedFrameError),
    "empty": (lambda _: b"", TruncatedFrameError),
    "codec": (lambda blob: Ecuq().encode(np.asarray(decode(blob))), UnsupportedFrameError),
    "shape": (lambda _: eden.encode(normal(SIZE + 1)), InvalidInputError),
    "rank": (lambda blob: eden.encode(np.asarray(decode(blob))[np.newaxis]), InvalidInputError),
    "mode": (
        lambda blob: reseal(
            blob[: payload_start(blob)] + b"\x02" + blob[payload_start(blob) + 1 :]
        ),
        UnsupportedFrameError,
    ),
    "width": (
        lambda blob: reseal(
            blob[: payload_start(blob) + 1] + b"\x09" + blob[payload_start(blob) + 2 :]
        ),
        CorruptFrameError,
    ),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
@pytest.mark.parametrize("place", [1, len(CODECS) - 1])
def test_refused_frames_are_named_and_out_is_not_touched(name: str, place: int) -> None:
    spoil, error = BAD_FRAMES[name]
    blobs = frames()
    blobs[place] = spoil(blobs[2])
    out = np.full(SIZE, 7, np.float32)
    with pytest.raises(error, match=f"frame {place}: "):
        eden.decode_mean(blobs, out=out)
    assert (out == 7).all()


def test_out_is_not_touched_by_frames_with_broken_streams() -> None:
    """Code words are all read before anything is written."""
    blobs = frames()
    blobs[-1] = damage_streams(blobs[-1])
    out = np.full(SIZE, 7, np.float32)
    with pytest.raises(CorruptFrameError):
        eden.decode_mean(blobs, out=out)
    assert (out == 7).all()


def test_no_frames() -> None:
    with pytest.raises(InvalidInputError, match="found none, expected at least one frame"):
        eden.decode_mean([])


@pytest.mark.parametrize("wrong", [None, 3, "frame", np.zeros(3, np.float32)])
def test_wrong_types(wrong: Any) -> None:
    with pytest.raises(TypeError, match="blob: found"):
        eden.decode_mean([frames(20)[0], wrong])
    with pytest.raises(TypeError, match="blob: found"):
        eden.Accumulator().add(wrong)


# Accumulator -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed_of", [lambda _: 3, lambda number: number])
@pytest.mark.parametrize("size", [0, 5, 100, SIZE])
def test_accumulator(size: int, seed_of: Callable[[int], int]) -> None:
    blobs = frames(size, seed_of) * 3
    mean = eden.Accumulator()
    for count, blob in enumerate(blobs, 1):
        mean.add(blob)
        assert (mean.count, mean.total_weight) == (count, count)
    assert_close(mean.mean(), np.asarray(eden.decode_mean(blobs)))


def test_accumulator_with_weights() -> None:
    blobs = frames()
    weights = [0.5 * (number % 4) for number in range(len(blobs))]
    mean = eden.Accumulator((SIZE,), threads=2)
    for blob, weight in zip(blobs, weights, strict=True):
        mean.add(blob, weight)
    assert mean.total_weight == sum(weights)
    assert_close(mean.mean(), np.asarray(eden.decode_mean(blobs, weights=weights)))


def test_means_on_the_way() -> None:
    blobs = frames()
    mean = eden.Accumulator()
    for count, blob in enumerate(blobs, 1):
        mean.add(blob)
        assert_close(mean.mean(), mean_of_decoded(blobs[:count]))
        assert np.array_equal(mean.mean(), mean.mean())


def test_mean_is_a_copy() -> None:
    blobs = frames(100)
    mean = eden.Accumulator()
    mean.add(blobs[0])
    before = np.asarray(mean.mean()).copy()
    np.asarray(mean.mean())[:] = 0
    assert np.array_equal(mean.mean(), before)


@pytest.mark.parametrize("name", [*BAD_FRAMES, "streams"])
def test_refused_frames_leave_the_mean(name: str) -> None:
    blobs = frames()
    bad = damage_streams(blobs[-1]) if name == "streams" else BAD_FRAMES[name][0](blobs[2])
    mean, other = eden.Accumulator(), eden.Accumulator()
    for blob in blobs:
        mean.add(blob)
        other.add(blob)
        with pytest.raises(CodecError):
            mean.add(bad, 5.0)
    assert (mean.count, mean.total_weight) == (len(blobs), len(blobs))
    assert np.array_equal(mean.mean(), other.mean())


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_refused_first_frame(name: str) -> None:
    spoil, error = BAD_FRAMES[name]
    blob = frames()[0]
    mean = eden.Accumulator((SIZE,))
    with pytest.raises(error):
        mean.add(spoil(blob))
    assert (mean.count, mean.total_weight) == (0, 0)
    mean.add(blob)
    assert_close(mean.mean(), np.asarray(decode(blob)))


@pytest.mark.parametrize("number", [1, 2, len(CODECS) - 1])
def test_a_buffer_may_be_used_again(number: int) -> None:
    """The frame is held until it is added, but not in the caller's memory."""
    blob = frames()[number]
    buffer = bytearray(blob)
    mean = eden.Accumulator()
    mean.add(buffer)  # type: ignore[arg-type]
    buffer[:] = bytes(len(buffer))
    buffer.append(0)
    view = np.frombuffer(blob, np.uint8).copy()
    mean.add(view)
    view[:] = 0
    assert_close(mean.mean(), np.asarray(decode(blob)))


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf"), -float("inf")])
def test_bad_weights(weight: float) -> None:
    mean = eden.Accumulator()
    with pytest.raises(InvalidInputError, match=r"weight: found .*, expected a finite number"):
        mean.add(frames(20)[0], weight)
    assert mean.count == 0


def test_no_mean_of_nothing() -> None:
    mean = eden.Accumulator()
    with pytest.raises(InvalidInputError, match="found no frame with a weight"):
        mean.mean()
    mean.add(frames(20)[0], 0)
    with pytest.raises(InvalidInputError, match="found no frame with a weight"):
        mean.mean()


def test_shape_of_the_accumulator() -> None:
    blobs = frames(20)
    mean = eden.Accumulator([20])
    mean.add(blobs[0])
    with pytest.raises(InvalidInputError, match=r"frame: shape: found \(21,\), expected \(20,\)"):
        mean.add(frames(21)[0])
    with pytest.raises(InvalidInputError, match="shape"):
        eden.Accumulator((4, 5)).add(blobs[0])
    assert mean.count == 1


def test_container_of_the_accumulator() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(normal(100)).reshape(4, 25)
    mean = eden.Accumulator()
    mean.add(eden.encode(x, bits=2, seed=1))
    mean.add(eden.encode(x.numpy(), bits=2, seed=2))
    result: Any = mean.mean()
    assert isinstance(result, torch.Tensor)
    assert (result.dtype, result.shape) == (torch.float32, (4, 25))


def test_large_values_and_weights_do_not_overflow() -> None:
    x = np.full(64, 1e38, dtype=np.float32)
    blobs = [eden.encode(x, bits=4, seed=seed) for seed in range(10)]
    mean = eden.Accumulator()
    for blob in blobs:
        mean.add(blob)
    assert_close(mean.mean(), mean_of_decoded(blobs))
    for weight in (1e-46, 1e30, 1e308):
        assert_close(eden.decode_mean(blobs, weights=[weight] * 10), mean_of_decoded(blobs))
        mean = eden.Accumulator()
        mean.add(blobs[0], weight / 4)
        mean.add(blobs[1], weight / 4)
        assert_close(mean.mean(), mean_of_decoded(blobs[:2]))


def test_hostile_scales_give_a_finite_mean() -> None:
    largest = float(np.finfo(np.float32).max)
    blobs = []
    for seed in (1, 2):
        spike = np.zeros(32, np.float32)
        spike[3] = 1
        words = twin.quantize(twin.rotate(spike, seed, 0).reshape(-1, 16), 1)
        payload = EdenPayload(
            seed=seed, scales=(largest,), tail=(), words=twin.pack_planes(words, 1)
        )
        blobs.append(payload.frame(32))
    assert np.isfinite(eden.decode_mean(blobs)).all()


def broken_streams(size: int) -> bytes:
    """Return an entropy-coded frame with a valid checksum whose code words do not add up."""
    blob = eden.encode(normal(size), bits=3, entropy_coded=True, seed=1)
    for value in range(256):
        damaged = reseal(blob[:-5] + bytes([value]) + blob[-4:])
        try:
            decode(damaged)
        except CorruptFrameError:
            return damaged
    raise AssertionError("no value damages the stream")


def test_damaged_streams_are_named_and_leave_no_trace() -> None:
    good = eden.encode(normal(5000), bits=3, seed=1)
    with pytest.raises(CorruptFrameError, match="frame 1: ECUQ block 0"):
        eden.decode_mean([good, broken_streams(5000)])
    mean = eden.Accumulator()
    with pytest.raises(CorruptFrameError):
        mean.add(broken_streams(5000))
    assert mean.count == 0
    mean.add(eden.encode(normal(100), seed=1))  # the refused frame did not fix the shape
    assert np.asarray(mean.mean()).shape == (100,)


def test_an_interrupted_accumulator_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 26: frames are in the mean once, or not yet."""
    blobs = frames()[:4]
    mean = eden.Accumulator()
    for blob in blobs:
        mean.add(blob)
    honest = _core.eden_decode_sum

    def interrupted(frames: Any, weights: Any, add: bool, out: Any, threads: int) -> None:
        honest(frames[:1], weights[:1], add, out, threads)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_core, "eden_decode_sum", interrupted)
        with pytest.raises(KeyboardInterrupt):
            mean.mean()
    assert_close(mean.mean(), mean_of_decoded(blobs))


def test_mean_of_torch_scalars() -> None:
    torch = pytest.importorskip("torch")
    mean = eden.Accumulator()
    mean.add(eden.encode(torch.tensor(1.5), seed=1))
    assert torch.equal(mean.mean(), torch.tensor(1.5))


def test_weights_whose_sum_is_infinite() -> None:
    accumulator = eden.Accumulator()
    blob = eden.encode(np.ones(100, np.float32), bits=2, seed=1)
    accumulator.add(blob, 1e308)
    with pytest.raises(InvalidInputError, match="weight: found 1e\\+308, which makes the sum"):
        accumulator.add(blob, 1e308)
    assert accumulator.count == 1
    assert np.all(np.isfinite(np.asarray(accumulator.mean())))


def test_weights_beyond_any_float() -> None:
    blob = eden.encode(np.ones(100, np.float32), bits=2, seed=1)
    with pytest.raises(InvalidInputError, match="weight: found inf"):
        eden.Accumulator().add(blob, 10**400)
    with pytest.raises(InvalidInputError, match="weight: found inf"):
        eden.decode_mean([blob], weights=[10**400])
