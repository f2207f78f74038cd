"""Names, order, shapes, dtypes and containers come back; what is exact is exact."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from docofl_codec import (
    InvalidInputError,
    _core,
    decode_state_dict,
    encode_state_dict,
    inspect_state_dict,
    report_state_dict,
)
from docofl_codec.ecuq import Quality
from tests.state_dict.models import small_model

INTEGERS = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]


def test_everything_comes_back() -> None:
    model = small_model()
    restored: dict[str, Any] = decode_state_dict(encode_state_dict(model, bits=4))
    assert list(restored) == list(model)
    for name, tensor in model.items():
        assert restored[name].dtype == tensor.dtype, name
        assert restored[name].shape == tensor.shape, name
        assert restored[name].flags.writeable
    for name in ("bn.num_batches_tracked", "mask", "fourier", "empty"):
        assert np.array_equal(restored[name], model[name]), name
    for name in ("block.0.weight", "half", "double"):
        error = restored[name].astype(float) - model[name]
        assert np.sum(error**2) < 0.05 * np.sum(model[name].astype(float) ** 2), name
    for name in ("block.0.bias", "bn.weight", "bn.running_var", "scalar"):
        assert np.allclose(restored[name], model[name], rtol=2**-8, atol=0), name


def test_tied_tensors_are_stored_once_and_stay_tied() -> None:
    model = small_model()
    blob = encode_state_dict(model, bits=4)
    restored = decode_state_dict(blob)
    assert restored["head.weight"] is restored["embedding.weight"]
    info = {report.name: report for report in inspect_state_dict(blob).tensors}
    assert info["head.weight"].tied_to == "embedding.weight"
    assert info["head.weight"].num_bytes == 0
    untied = {**model, "head.weight": model["head.weight"].copy()}
    assert inspect_state_dict(encode_state_dict(untied, bits=4)).size == 300 * 128 + sum(
        tensor.size for tensor in list(model.values())[:-1]
    )


def test_views_that_only_overlap_are_not_tied() -> None:
    x = np.arange(12_000, dtype=np.float32)
    model = {"a": x[:6000], "b": x[:6000].reshape(60, 100), "c": x[6000:], "d": x[:6000][::-1]}
    restored: Any = decode_state_dict(encode_state_dict(model, bits=40))
    for name, tensor in model.items():
        assert np.array_equal(restored[name], tensor), name


@pytest.mark.parametrize("dtype", [*INTEGERS, "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(), (1,), (0, 4), (7, 11)])
def test_what_is_no_float_is_lossless(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    tensor = np.asarray(rng.integers(0, 2**60, size=shape)).astype(dtype)
    restored: Any = decode_state_dict(encode_state_dict({"x": tensor}, bits=64))["x"]
    assert restored.dtype == tensor.dtype
    assert restored.shape == shape
    assert np.array_equal(restored, tensor)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_not_a_number_survives_where_it_is_kept(dtype: str) -> None:
    tensor = np.array([np.nan, np.inf, -np.inf, 1.5, 0, -0.0], dtype=dtype)
    for how in ("exact", "half"):
        blob = encode_state_dict({"x": tensor}, bits=64, rules={"x": how})
        assert np.array_equal(np.asarray(decode_state_dict(blob)["x"]), tensor, equal_nan=True)


def test_bfloat16_and_float8_of_ml_dtypes() -> None:
    rng = np.random.default_rng(0)
    model = {
        "coded": rng.normal(size=(300, 200)).astype(ml_dtypes.bfloat16),
        "kept": rng.normal(size=300).astype(ml_dtypes.bfloat16),
        "tiny": rng.normal(size=(8, 8)).astype(ml_dtypes.float8_e4m3fn),
    }
    restored: Any = decode_state_dict(encode_state_dict(model, bits=3))
    assert [tensor.dtype for tensor in restored.values()] == [t.dtype for t in model.values()]
    assert np.array_equal(restored["kept"], model["kept"])
    assert restored["tiny"].tobytes() == model["tiny"].tobytes()


@pytest.mark.parametrize("bits", [2, 8, 20])
def test_torch_tensors(bits: float) -> None:
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(200, 300, generator=generator))
    model = {
        "weight": weight,
        "transposed": torch.randn(300, 200, generator=generator).t(),
        "bfloat16": torch.randn(150, 100, generator=generator).to(torch.bfloat16),
        "half": torch.randn(150, 100, generator=generator).half(),
        "count": torch.tensor(3),
        "flags": torch.tensor([True, False]),
        "float8": torch.randn(10, 10, generator=generator).to(torch.float8_e5m2),
        "conjugate": torch.randn(4, 4, dtype=torch.complex64, generator=generator).conj(),
        "tied": weight,
    }
    restored: Any = decode_state_dict(encode_state_dict(model, bits=bits))
    assert list(restored) == list(model)
    for name, tensor in model.items():
        assert isinstance(restored[name], torch.Tensor)
        assert restored[name].dtype == tensor.dtype, name
        assert restored[name].shape == tensor.shape, name
        assert not restored[name].requires_grad
    assert restored["tied"] is restored["weight"]
    assert torch.equal(restored["conjugate"], model["conjugate"].resolve_conj())
    assert torch.equal(restored["flags"], model["flags"])
    assert torch.equal(restored["float8"].view(torch.uint8), model["float8"].view(torch.uint8))
    as_numpy = decode_state_dict(encode_state_dict(model, bits=bits), framework="numpy")
    assert all(isinstance(tensor, np.ndarray) for tensor in as_numpy.values())


def test_a_torch_module_loads_what_comes_back() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(50, 60), torch.nn.BatchNorm1d(60))
    blob = encode_state_dict(module.state_dict(), bits=8)
    module.load_state_dict(decode_state_dict(blob))


def test_torch_is_not_imported() -> None:
    code = (
        "import sys, numpy as np, docofl_codec as d\n"
        "m = {'w': np.ones((100, 100), np.float32)}\n"
        "d.decode_state_dict(d.encode_state_dict(m))\n"
        "assert 'torch' not in sys.modules and 'ml_dtypes' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "name", ["", "a/b", "ключ", "x" * 60_000, "new\nline", "a\0b", "..", "__metadata__"]
)
def test_any_text_is_a_name(name: str) -> None:
    model = {name: np.zeros(3, np.float32), name + "!": np.ones(2, np.float32)}
    assert list(decode_state_dict(encode_state_dict(model))) == list(model)


@pytest.mark.parametrize("name", ["x" * 65_536, "\ud800"])
def test_names_that_do_not_fit(name: str) -> None:
    with pytest.raises(InvalidInputError, match="name"):
        encode_state_dict({name: np.zeros(3, np.float32)})


def test_torch_tensors_without_plain_memory_are_refused() -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls nested tensors a prototype
        nested = torch.nested.nested_tensor([torch.zeros(3), torch.zeros(2)])
    for tensor in (nested, torch.zeros(3).to_sparse(), torch.zeros(3, device="meta")):
        with pytest.raises(TypeError, match="tensor 'w': expected a dense torch tensor"):
            encode_state_dict({"w": tensor})

    def encode(x: Any) -> Any:
        with pytest.raises(TypeError, match=r"tensor 'w': found .*, expected a tensor with memory"):
            encode_state_dict({"w": x})
        return x

    torch.vmap(encode)(torch.zeros(2, 3, 5))


@pytest.mark.parametrize("value", [3, 1.5, None, "text", [1.0], object(), {}])
def test_what_is_no_tensor(value: Any) -> None:
    with pytest.raises(TypeError, match=r"tensor 'x': found .*, expected"):
        encode_state_dict({"x": value})


def test_wrong_types() -> None:
    x = np.zeros(3, np.float32)
    with pytest.raises(TypeError, match="expected a mapping"):
        encode_state_dict([x])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name 1: found int, expected str"):
        encode_state_dict({1: x})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="object"):
        encode_state_dict({"x": np.array([None])})
    with pytest.raises(TypeError, match="masked"):
        encode_state_dict({"x": np.ma.masked_array(x)})
    with pytest.raises(TypeError, match="bits: found str"):
        encode_state_dict({"x": x}, bits="2")  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", ["F", "strided", "negative", "big-endian", "read-only"])
def test_layouts_give_the_same_bytes(layout: str) -> None:
    x = np.random.default_rng(0).normal(size=(200, 300)).astype(np.float32)
    other: Any = {
        "F": np.asfortranarray(x),
        "strided": np.repeat(x, 2, axis=1)[:, ::2],
        "negative": x[::-1].copy()[::-1],
        "big-endian": x.astype(">f4"),
        "read-only": x.copy(),
    }[layout]
    other.flags.writeable = layout != "read-only"
    assert encode_state_dict({"x": other}) == encode_state_dict({"x": x})


def test_empty_dict() -> None:
    blob = encode_state_dict({})
    assert decode_state_dict(blob) == {}
    assert inspect_state_dict(blob).bits_per_coordinate == 0


def test_report() -> None:
    model = small_model()
    blob = encode_state_dict(model, bits=3)
    report = report_state_dict(model, blob)
    assert report.frame_bytes == len(blob)
    taken = sum(tensor.num_bytes for tensor in report.tensors)
    assert taken + report.index_bytes == pytest.approx(len(blob))
    assert sum(tensor.share for tensor in report.tensors) == pytest.approx(taken / len(blob))
    assert sum(tensor.error_share or 0 for tensor in report.tensors) == pytest.approx(1)
    by_name = {tensor.name: tensor for tensor in report.tensors}
    restored: Any = decode_state_dict(blob)
    x = model["block.0.weight"].astype(float)
    error = restored["block.0.weight"] - x
    assert by_name["block.0.weight"].nmse == pytest.approx(np.sum(error**2) / np.sum(x**2))
    assert by_name["mask"].nmse == 0
    assert report.nmse is not None


def test_report_of_another_model() -> None:
    model = small_model()
    blob = encode_state_dict(model)
    with pytest.raises(InvalidInputError, match="only: mask"):
        report_state_dict({k: v for k, v in model.items() if k != "mask"}, blob)
    with pytest.raises(InvalidInputError, match=r"tensor 'mask': found bool \(40, 40\), expected"):
        report_state_dict({**model, "mask": model["mask"].T[:20]}, blob)
    with pytest.raises(InvalidInputError, match="differs"):
        report_state_dict({**model, "mask": ~model["mask"]}, blob)


@pytest.mark.parametrize("quality", ["fast", "best"])
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_bytes_do_not_depend_on_threads(threads: int, quality: Quality, isa: str) -> None:
    """Row 23."""
    model = small_model()
    blob = encode_state_dict(model, threads=threads, quality=quality)
    values = [x.tobytes() for x in map(np.asarray, decode_state_dict(blob, threads=1).values())]
    _core.set_isa("baseline")
    assert encode_state_dict(model, quality=quality) == blob
    _core.set_isa(isa)
    again = decode_state_dict(blob, threads=threads)
    assert [x.tobytes() for x in map(np.asarray, again.values())] == values
