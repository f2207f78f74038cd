"""The options of `eden.encode` and `eden.decode`: what they do, what is refused and how."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from docofl_codec import (
    Ecuq,
    Eden,
    InvalidInputError,
    LimitExceededError,
    UnsupportedFrameError,
    decode,
    eden,
    inspect,
)
from docofl_codec.reference import decode_frame
from docofl_codec.reference.eden import theory_nmse
from tests.helpers.data import SEED, Floats, lognormal, normal


def nmse(x: Floats, blob: bytes) -> float:
    x64 = x.astype(np.float64)
    return float(np.sum((x64 - np.asarray(eden.decode(blob))) ** 2) / np.sum(x64**2))


# Bits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [0.1, 0.5, 1, 1.5, np.float32(3.5), np.int64(4), 8, 8.0])
def test_bits_in_range(tensor: Floats, bits: float) -> None:
    blob = eden.encode(tensor, bits=bits, seed=SEED)
    assert eden.decode(blob).shape == tensor.shape
    assert inspect(blob).bits == np.float32(bits)


@pytest.mark.parametrize("bits", [1.5, 2, 3.7, 8, 12, 16])
def test_bits_in_range_entropy_coded(tensor: Floats, bits: float) -> None:
    blob = eden.encode(tensor, bits=bits, seed=SEED, entropy_coded=True)
    assert eden.decode(blob).shape == tensor.shape
    assert inspect(blob).bits == np.float32(bits)


@pytest.mark.parametrize("bits", [0, -1, 0.0999, 8.001, 1e300, float("inf"), float("nan")])
def test_bits_out_of_range(tensor: Floats, bits: float) -> None:
    with pytest.raises(InvalidInputError, match=r"bits: found .*, expected .* 0\.1 to 8"):
        eden.encode(tensor, bits=bits)


@pytest.mark.parametrize("bits", [0, 1, 1.499, 16.001, float("inf"), float("nan")])
def test_bits_out_of_range_entropy_coded(tensor: Floats, bits: float) -> None:
    with pytest.raises(InvalidInputError, match=r"bits: found .*, expected .* 1\.5 to 16"):
        eden.encode(tensor, bits=bits, entropy_coded=True)


@pytest.mark.parametrize("bits", ["2", None, [2], 1j])
def test_bits_of_a_wrong_type(tensor: Floats, bits: Any) -> None:
    with pytest.raises(TypeError):
        eden.encode(tensor, bits=bits)


def test_more_bits_give_more_bytes_and_a_smaller_error() -> None:
    x = normal(40_000)
    blobs = [eden.encode(x, bits=bits, seed=SEED) for bits in (0.1, 0.3, 0.5, 1, 1.5, 2, 5, 8)]
    assert [len(blob) for blob in blobs] == sorted({len(blob) for blob in blobs})
    errors = [nmse(x, blob) for blob in blobs]
    assert errors == sorted(set(errors), reverse=True)


def test_defaults(tensor: Floats) -> None:
    expected = eden.encode(
        tensor, bits=1.0, seed=SEED, scale="unbiased", entropy_coded=False, threads=1
    )
    assert eden.encode(tensor, seed=SEED) == expected


# Seeds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**63, 2**64 - 1, np.uint64(2**64 - 1), np.int8(5)])
def test_seed_is_recorded(tensor: Floats, seed: int) -> None:
    blob = eden.encode(tensor, seed=seed)
    assert inspect(blob).seed == seed
    assert blob == eden.encode(tensor, seed=int(seed))


def test_fresh_seeds(tensor: Floats) -> None:
    """They are recorded too: the same frame comes out again."""
    blobs = [eden.encode(tensor, bits=2) for _ in range(20)]
    seeds = [inspect(blob).seed for blob in blobs]
    assert len(set(blobs)) == len(set(seeds)) == 20
    assert max(seed or 0 for seed in seeds) > 2**56
    assert [eden.encode(tensor, bits=2, seed=seed) for seed in seeds] == blobs


def test_other_seeds_give_other_words() -> None:
    x = normal(1000)
    assert len({np.asarray(eden.decode(eden.encode(x, seed=s))).tobytes() for s in range(50)}) == 50


@pytest.mark.parametrize("seed", [-1, 2**64, 2**200, np.int64(-(2**63))])
def test_seed_out_of_range(tensor: Floats, seed: int) -> None:
    with pytest.raises(InvalidInputError, match=r"seed: found .*, expected 0 to 2\^64 - 1"):
        eden.encode(tensor, seed=seed)


@pytest.mark.parametrize("seed", [1.0, "1", True, [1], np.float32(1)])
def test_seed_of_a_wrong_type(tensor: Floats, seed: Any) -> None:
    with pytest.raises(TypeError, match=r"seed: found .*, expected an integer or None"):
        eden.encode(tensor, seed=seed)


# Scales ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["MSE", "", None, 2, b"mse"])
def test_unknown_scale(tensor: Floats, scale: Any) -> None:
    with pytest.raises(InvalidInputError, match=r'scale: found .*, expected "unbiased" or "mse"'):
        eden.encode(tensor, scale=scale)


@pytest.mark.parametrize("entropy_coded", [False, True])
@pytest.mark.parametrize("size", [16, 100, 5000, 40_000])
@pytest.mark.parametrize("bits", [0.5, 1, 2, 4])
def test_mse_scale_has_the_smaller_error(size: int, bits: float, entropy_coded: bool) -> None:
    x = lognormal(size)
    bits = max(bits, 1.5) if entropy_coded else bits
    for seed in range(5):
        unbiased, mse = (
            nmse(x, Eden(bits=bits, scale=scale, entropy_coded=entropy_coded).encode(x, seed=seed))
            for scale in ("unbiased", "mse")
        )
        assert mse <= unbiased + 1e-9


def test_mse_error_is_the_distortion() -> None:
    x = normal(2**18)
    for bits in (1, 2, 3):
        theory = theory_nmse(bits)  # of the unbiased scale: 1 / (1 - D) - 1
        found = nmse(x, eden.encode(x, bits=bits, scale="mse", seed=SEED))
        assert found == pytest.approx(theory / (1 + theory), rel=0.02)


# Entropy coding ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "part"), [(2, 0.92), (3, 0.80), (4, 0.72)])
def test_entropy_coding_pays_off(bits: float, part: float) -> None:
    """Against the codebook of Lloyd and Max, at no more bytes."""
    x = normal(2**18)
    fixed = eden.encode(x, bits=bits, seed=SEED)
    coded = eden.encode(x, bits=bits, seed=SEED, entropy_coded=True)
    assert len(coded) <= len(fixed)
    assert nmse(x, coded) < part * nmse(x, fixed)
    assert nmse(x, coded) < part * theory_nmse(bits)


# Tiny tensors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("entropy_coded", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_tiny_vectors_are_exact(size: int, entropy_coded: bool) -> None:
    x = np.array([3e38, -0.0, 1e-45], np.float32)[:size]
    blob = eden.encode(x, bits=2, entropy_coded=entropy_coded)
    assert np.asarray(eden.decode(blob)).tobytes() == x.tobytes()
    assert len(blob) < 50


# Threads and the rest ----------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [None, 1, 2, 1024, np.int32(3)])
def test_threads_in_range(tensor: Floats, threads: int | None) -> None:
    blob = eden.encode(tensor, seed=SEED, threads=threads)
    assert blob == eden.encode(tensor, seed=SEED)
    assert np.array_equal(eden.decode(blob, threads=threads), eden.decode(blob))


@pytest.mark.parametrize("threads", [0, -1, 1025])
def test_threads_out_of_range(tensor: Floats, threads: int) -> None:
    blob = eden.encode(tensor, seed=SEED)
    message = r"threads: found .*, expected 1 to 1024"
    with pytest.raises(InvalidInputError, match=message):
        eden.encode(tensor, threads=threads)
    with pytest.raises(InvalidInputError, match=message):
        eden.decode(blob, threads=threads)
    with pytest.raises(InvalidInputError, match=message):
        eden.decode_mean([blob], threads=threads)
    with pytest.raises(InvalidInputError, match=message):
        eden.Accumulator(threads=threads)


def test_options_are_keyword_only(tensor: Floats) -> None:
    blob = eden.encode(tensor, seed=SEED)
    with pytest.raises(TypeError):
        eden.encode(tensor, 2)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        eden.decode(blob, tensor)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        eden.decode_mean([blob], [1])  # type: ignore[call-arg]


def test_codec_object_uses_its_options(tensor: Floats) -> None:
    x = np.tile(tensor.ravel(), 4)
    codec = Eden(bits=3.5, scale="mse", threads=2)
    assert codec.encode(x, seed=SEED) == eden.encode(x, bits=3.5, scale="mse", seed=SEED)
    coded = Eden(bits=3.5, entropy_coded=True)
    assert coded.encode(x, seed=SEED) == eden.encode(x, bits=3.5, entropy_coded=True, seed=SEED)
    assert Eden(bits=3.5).encode(x) != Eden(bits=3.5).encode(x)


# Decoding ----------------------------------------------------------------------------------------


def test_decode_has_the_options_of_the_common_one(tensor: Floats) -> None:
    blob = eden.encode(tensor, bits=4, seed=SEED)
    out = np.empty_like(tensor)
    assert eden.decode(blob, out=out) is out
    assert np.array_equal(out, decode(blob))
    assert eden.decode(blob, framework="numpy", expected_shape=tensor.shape).shape == tensor.shape
    with pytest.raises(InvalidInputError, match="shape"):
        eden.decode(blob, expected_shape=(1,))
    with pytest.raises(LimitExceededError):
        eden.decode(blob, max_output_bytes=tensor.nbytes - 1)
    with pytest.raises(InvalidInputError, match="out: "):
        eden.decode(blob, out=np.empty(tensor.shape, np.float64))


def test_frames_of_other_codecs_are_refused(tensor: Floats, blob: bytes) -> None:
    with pytest.raises(UnsupportedFrameError, match="codec: found ecuq, expected eden"):
        eden.decode(blob)
    with pytest.raises(UnsupportedFrameError, match="codec: found eden, expected ecuq"):
        Ecuq().decode(eden.encode(tensor))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("entropy_coded", [False, True])
def test_torch(dtype: str, entropy_coded: bool) -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(normal(1000)).reshape(10, 100).to(getattr(torch, dtype))
    blob = eden.encode(x, bits=4, seed=SEED, entropy_coded=entropy_coded)
    x_hat: Any = eden.decode(blob)
    assert isinstance(x_hat, torch.Tensor)
    assert (x_hat.dtype, x_hat.shape) == (x.dtype, x.shape)
    assert float((x_hat - x).square().sum() / x.square().sum()) < 0.03
    assert inspect(blob).framework == "torch"
    as_numpy = np.asarray(eden.decode(blob, framework="numpy"), np.float32)
    assert as_numpy.tolist() == x_hat.float().tolist()


# Inspection --------------------------------------------------------------------------------------


@pytest.mark.parametrize("entropy_coded", [False, True])
def test_inspect(entropy_coded: bool) -> None:
    x = normal(300).reshape(3, 100).astype(np.float16)
    blob = eden.encode(x, bits=2.5, seed=11, entropy_coded=entropy_coded)
    info = inspect(blob)
    assert (info.codec, info.dtype, info.shape, info.size) == ("eden", "float16", (3, 100), 300)
    assert (info.bits, info.seed, info.entropy_coded) == (2.5, 11, entropy_coded)
    assert (info.framework, info.frame_bytes) == ("numpy", len(blob))
    assert info.bits_per_coordinate == 8 * len(blob) / 300
    expected = decode_frame(blob)[1]
    assert (info.bits, info.seed) == (expected["bits"], expected["seed"])


def test_inspect_has_no_fields_of_eden_for_others(blob: bytes) -> None:
    info = inspect(blob)
    assert (info.bits, info.seed, info.entropy_coded) == (None, None, None)


def test_inspect_has_no_fields_of_ecuq(tensor: Floats) -> None:
    info = inspect(eden.encode(tensor, bits=2, entropy_coded=True))
    assert (info.num_levels, info.step, info.x_min, info.entropy) == (None, None, None, None)
