"""torch tensors: container, dtype and shape come back; row 19 for what is not a plain tensor."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from docofl_codec import Codec, Identity, InvalidInputError, decode, inspect
from tests.helpers.data import SEED, normal
from tests.helpers.frames import reseal

torch = pytest.importorskip("torch")

DTYPES = ["float16", "bfloat16", "float32", "float64"]


def sample(*shape: int, dtype: str = "float32") -> Any:
    return torch.from_numpy(normal(int(np.prod(shape)))).reshape(shape).to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (2, 3, 5), (4097,)])
def test_round_trip(codec: Codec, dtype: str, shape: tuple[int, ...]) -> None:
    x = sample(*shape, dtype=dtype)
    before = x.clone()
    blob = codec.encode(x, seed=SEED)
    x_hat: Any = codec.decode(blob)
    assert isinstance(x_hat, torch.Tensor)
    assert (x_hat.dtype, x_hat.shape, x_hat.requires_grad) == (x.dtype, x.shape, False)
    info = inspect(blob)
    assert (info.framework, info.dtype, info.shape) == ("torch", dtype, shape)
    assert torch.equal(x, before)
    if isinstance(codec, Identity):
        assert torch.equal(x_hat, x)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_frame_of_the_numpy_array_but_for_its_flag(codec: Codec, dtype: str) -> None:
    x = sample(5000, dtype=dtype)
    blob, numpy_blob = codec.encode(x, seed=SEED), codec.encode(x.numpy(), seed=SEED)
    assert (blob[6], numpy_blob[6]) == (1, 0)
    assert reseal(blob[:6] + b"\0" + blob[7:]) == numpy_blob


@pytest.mark.parametrize("dtype", DTYPES)
def test_framework_option(codec: Codec, dtype: str) -> None:
    x = sample(100, dtype=dtype)
    blob = codec.encode(x, seed=SEED)
    as_numpy: Any = decode(blob, framework="numpy")
    as_torch: Any = decode(codec.encode(x.float().numpy(), seed=SEED), framework="torch")
    assert isinstance(as_numpy, np.ndarray)
    assert isinstance(as_torch, torch.Tensor)
    assert as_numpy.astype(np.float32).tolist() == decode(blob).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_decode_into_a_torch_tensor(codec: Codec, dtype: str) -> None:
    blob = codec.encode(sample(3, 5, dtype=dtype), seed=SEED)
    out = torch.zeros(3, 5, dtype=getattr(torch, dtype))
    result: Any = codec.decode(blob, out=out)
    assert result is out
    assert torch.equal(out, decode(blob))


def test_decode_into_a_parameter(codec: Codec) -> None:
    out = torch.nn.Parameter(torch.zeros(3, 5))
    blob = codec.encode(sample(3, 5), seed=SEED)
    codec.decode(blob, out=out)
    assert torch.equal(out.detach(), decode(blob))


def test_out_of_another_container(codec: Codec) -> None:
    blob = codec.encode(sample(3, 5), seed=SEED)
    out = np.empty((3, 5), np.float32)
    assert codec.decode(blob, out=out) is out
    assert out.tolist() == decode(blob).tolist()


def nested_tensor() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls nested tensors a prototype
        return torch.nested.nested_tensor([torch.zeros(3), torch.zeros(2)])


def test_out_that_does_not_fit(codec: Codec) -> None:
    blob = codec.encode(sample(3, 5), seed=SEED)
    outs = [
        torch.empty(5, 3).T,
        torch.empty(15),
        torch.empty(3, 5, dtype=torch.float64),
        torch.empty(3, 5, dtype=torch.int32),
        torch.empty(3, 5, device="meta"),
        torch.zeros(3, 5).to_sparse(),
        nested_tensor(),
        torch._neg_view(torch.zeros(3, 5)),
    ]
    for out in outs:
        with pytest.raises(InvalidInputError, match="out: "):
            codec.decode(blob, out=out)


def test_result_is_on_the_cpu_whatever_the_default_device(codec: Codec) -> None:
    blob = codec.encode(sample(3, 5), seed=SEED)
    with torch.device("meta"):
        x_hat: Any = decode(blob)
    assert x_hat.device.type == "cpu"
    assert torch.equal(x_hat, decode(blob))


# Row 19: requires_grad is detached; anything but a dense CPU tensor is handled or refused.


def test_requires_grad_is_detached(codec: Codec) -> None:
    x = sample(3, 5)
    leaf = x.clone().requires_grad_()
    assert codec.encode(leaf, seed=SEED) == codec.encode(x, seed=SEED)
    assert codec.encode(torch.nn.Parameter(x), seed=SEED) == codec.encode(x, seed=SEED)
    assert codec.encode(leaf * 2, seed=SEED) == codec.encode(x * 2, seed=SEED)
    assert leaf.grad is None


def test_layouts(codec: Codec) -> None:
    x = sample(6, 8)
    views = [
        x.T,
        x[:, ::2],
        x[1:4, 2:],
        x.reshape(2, 3, 8).permute(2, 0, 1),
        sample(1, 8).expand(6, 8),
        sample(2, 3, 4, 4).to(memory_format=torch.channels_last),
    ]
    for view in views:
        contiguous = view.clone(memory_format=torch.contiguous_format)
        assert codec.encode(view, seed=SEED) == codec.encode(contiguous, seed=SEED)


def test_lazy_negation(codec: Codec) -> None:
    x = torch._neg_view(sample(6, 8))
    assert x.is_neg()
    assert codec.encode(x, seed=SEED) == codec.encode(x.resolve_neg(), seed=SEED)


def test_sparse_tensors_are_refused(codec: Codec) -> None:
    with pytest.raises(TypeError, match="sparse_coo torch tensor, expected a dense one"):
        codec.encode(torch.zeros(3, 5).to_sparse())


def test_nested_tensors_are_refused(codec: Codec) -> None:
    with pytest.raises(TypeError, match="nested torch tensor, expected a dense one"):
        codec.encode(nested_tensor())


def test_tensors_without_memory_are_refused(codec: Codec) -> None:
    blob = codec.encode(sample(3, 5), seed=SEED)

    def try_both(x: Any) -> Any:
        with pytest.raises(TypeError, match=r"tensor: found .*, expected a tensor with memory"):
            codec.encode(x)
        with pytest.raises(TypeError, match=r"out: found .*, expected a tensor with memory"):
            codec.decode(blob, out=x)
        return x

    torch.vmap(try_both)(torch.zeros(2, 3, 5))


def test_meta_tensors_are_refused(codec: Codec) -> None:
    with pytest.raises(TypeError, match="meta device"):
        codec.encode(torch.zeros(3, 5, device="meta"))


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "complex64", "float8_e4m3fn"])
def test_other_dtypes_are_refused(codec: Codec, dtype: str) -> None:
    with pytest.raises(TypeError, match=f"tensor dtype: found {dtype}, expected one of float32"):
        codec.encode(torch.zeros(3, dtype=getattr(torch, dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_non_finite_values_are_refused(codec: Codec, dtype: str) -> None:
    x = sample(5000, dtype=dtype)
    x[4321] = float("nan")
    with pytest.raises(InvalidInputError, match=r"found 1 value.*flat index 4321"):
        codec.encode(x)


def test_torch_notices_that_out_was_written() -> None:
    blob = Identity().encode(torch.zeros(3))
    out = torch.ones(3)
    version = out._version
    decode(blob, out=out)
    assert out._version > version
