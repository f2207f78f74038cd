"""Every format: what is written comes back, also to the libraries that the formats are from."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from docofl_codec import (
    CodecError,
    CorruptFrameError,
    InvalidInputError,
    LimitExceededError,
    files,
)
from tests.state_dict.models import small_model


@pytest.fixture
def model() -> dict[str, Any]:
    return small_model()


def check_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, name
        assert found[name].shape == tensor.shape, name
        assert np.array_equal(found[name], tensor), name


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".pt", ".docofl"])
def test_save_and_load(tmp_path: Path, model: dict[str, Any], suffix: str) -> None:
    if suffix == ".pt":
        pytest.importorskip("torch")
    path = tmp_path / f"model{suffix}"
    files.save(path, model, **({"bits": 64} if suffix == ".docofl" else {}))
    loaded: dict[str, Any] = files.load(path, framework="numpy")
    check_same(loaded, model)
    assert all(tensor.flags.writeable for tensor in loaded.values())
    assert not list(tmp_path.glob("*.new"))


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".pt"])
def test_encode_decode_verify(tmp_path: Path, model: dict[str, Any], suffix: str) -> None:
    if suffix == ".pt":
        pytest.importorskip("torch")
    source, coded = tmp_path / f"model{suffix}", tmp_path / "model.docofl"
    files.save(source, model)
    info = files.encode_file(source, coded, bits=3)
    assert info.frame_bytes == coded.stat().st_size
    assert info.bits_per_coordinate <= 3
    restored = tmp_path / f"restored{suffix}"
    files.decode_file(coded, restored)
    loaded: dict[str, Any] = files.load(restored, framework="numpy")
    direct: dict[str, Any] = files.load(coded, framework="numpy")
    check_same(loaded, direct)
    report = files.verify_file(coded, source)
    assert report.nmse is not None
    assert 0 < report.nmse < 0.05
    again = files.verify_file(coded, restored)
    assert again.nmse == 0


def test_a_file_holds_the_bytes_of_encode_state_dict(tmp_path: Path, model: dict[str, Any]) -> None:
    from docofl_codec import decode_state_dict, encode_state_dict

    source, coded = tmp_path / "model.safetensors", tmp_path / "model.docofl"
    untied = {name: tensor.copy() for name, tensor in model.items()}
    files.save(source, untied)
    files.encode_file(source, coded, bits=2.5)
    assert coded.read_bytes() == encode_state_dict(untied, bits=2.5)
    check_same(files.load(coded), decode_state_dict(coded.read_bytes()))


def test_npy(tmp_path: Path) -> None:
    x = np.asfortranarray(np.random.default_rng(0).normal(size=(200, 150)).astype(np.float32))
    source, coded, restored = (tmp_path / f"x.{s}" for s in ("npy", "docofl", "copy.npy"))
    np.save(source, x)
    files.encode_file(source, coded, bits=8)
    files.decode_file(coded, restored)
    assert np.allclose(np.load(restored), x, atol=0.05)
    with pytest.raises(InvalidInputError, match=r"found 2 tensors, expected one"):
        files.save(restored, {"a": x, "b": x[1:]})
    assert np.load(restored).shape == x.shape


@pytest.mark.parametrize("codec", ["ecuq:4", "eden:4", "identity", "topk:0.5"])
def test_a_file_of_one_frame(tmp_path: Path, codec: str) -> None:
    from docofl_codec import decode, make_codec

    x = np.random.default_rng(0).normal(size=(30, 40)).astype(np.float32)
    blob = make_codec(codec).encode(x, seed=1)
    path = tmp_path / "x.docofl"
    path.write_bytes(blob)
    assert files.inspect_file(path).tensors[0].shape == (30, 40)
    assert np.array_equal(np.asarray(files.load(path)["array"]), np.asarray(decode(blob)))
    files.decode_file(path, tmp_path / "x.npy")
    assert np.array_equal(np.load(tmp_path / "x.npy"), np.asarray(decode(blob)))
    path.write_bytes(blob[:-1])
    with pytest.raises(CorruptFrameError):
        files.load(path)


def test_tied_tensors_of_pt_files_stay_tied(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    weight = torch.randn(100, 100)
    torch.save({"a": weight, "b": torch.randn(3), "c": weight}, tmp_path / "m.pt")
    files.encode_file(tmp_path / "m.pt", tmp_path / "m.docofl", bits=8)
    files.decode_file(tmp_path / "m.docofl", tmp_path / "r.pt")
    restored: Any = torch.load(tmp_path / "r.pt", weights_only=True)
    assert restored["a"].data_ptr() == restored["c"].data_ptr()
    files.decode_file(tmp_path / "m.docofl", tmp_path / "r.safetensors")
    plain: Any = files.load(tmp_path / "r.safetensors")
    assert np.array_equal(plain["a"], plain["c"])


def test_checkpoints_of_training_scripts(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    state = {"w": torch.randn(50, 50)}
    path, out = tmp_path / "m.pt", tmp_path / "m.docofl"
    torch.save({"model_state_dict": state, "epoch": 3}, path)
    files.encode_file(path, out, bits=8)
    torch.save({"epoch": 3, "ema": state}, path)
    with pytest.raises(InvalidInputError, match=r"no dict of tensors, .*'epoch', 'ema'"):
        files.encode_file(path, out)
    files.encode_file(path, out, bits=8, key="ema")
    with pytest.raises(InvalidInputError, match="has no key 'none'"):
        files.encode_file(path, out, key="none")
    with pytest.raises(InvalidInputError, match=r"expected it for \.pt files alone"):
        files.open_source(tmp_path / "m.npz", key="x")


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("unpickled",))


def test_nothing_is_unpickled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"w": _Evil()}, tmp_path / "m.pt")
    np.savez(tmp_path / "m.npz", x=np.array([None, 3], dtype=object))
    np.save(tmp_path / "m.npy", np.array([None, 3], dtype=object))
    for name in ("m.pt", "m.npz", "m.npy"):
        with pytest.raises((CodecError, TypeError)):
            files.load(tmp_path / name)
    assert "unpickled" not in capsys.readouterr().out


def test_safetensors_of_their_own_library(tmp_path: Path) -> None:
    package = pytest.importorskip("safetensors.numpy")
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    tensors = {
        "a": torch.randn(30, 40, dtype=torch.bfloat16),
        "b": torch.randn(7),
        "c": torch.tensor([True, False]),
        "d": torch.arange(5),
        "ключ/x": torch.zeros(0, 3),
        "scalar": torch.tensor(3.5, dtype=torch.float64),
    }
    save_file(tensors, tmp_path / "theirs.safetensors", metadata={"format": "pt"})
    found: Any = files.load(tmp_path / "theirs.safetensors", framework="torch")
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
    files.save(tmp_path / "ours.safetensors", tensors)
    again = load_file(tmp_path / "ours.safetensors")
    assert all(torch.equal(again[name], tensor) for name, tensor in tensors.items())
    assert set(package.load_file(tmp_path / "ours.safetensors")) == set(tensors)


def test_bfloat16_in_numpy_files_is_float32(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 70)).astype(ml_dtypes.bfloat16)
    files.save(tmp_path / "x.npz", {"x": x})
    assert np.array_equal(np.load(tmp_path / "x.npz")["x"], x.astype(np.float32))
    with pytest.raises(InvalidInputError, match="no float8"):
        files.save(tmp_path / "x.npz", {"x": x.astype(ml_dtypes.float8_e5m2)})
    with pytest.raises(InvalidInputError, match="complex128"):
        files.save(tmp_path / "x.safetensors", {"x": np.zeros(3, np.complex128)})


def safetensors(header: Any, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 7,
        safetensors({"x": entry()}, bytes(7)),
        safetensors({"x": entry()}, bytes(9)),
        safetensors({"x": entry(shape=[3])}, bytes(8)),
        safetensors({"x": entry(shape=[-2])}, bytes(8)),
        safetensors({"x": entry(shape=[2.0])}, bytes(8)),
        safetensors({"x": entry(shape="2")}, bytes(8)),
        safetensors({"x": entry(shape=[1 << 63, 0])}, bytes(8)),
        safetensors({"x": entry(data_offsets=[8, 16])}, bytes(16)),
        safetensors({"x": entry(data_offsets=[0])}, bytes(8)),
        safetensors({"x": entry(), "y": entry()}, bytes(8)),
        safetensors({"x": 3}),
        safetensors([1, 2]),
        safetensors(b"{" * 100_000),
        safetensors(b"[" * 100_000),
        safetensors(b'{"x": {}, "x": {}}'),
        safetensors(b"\xff\xfe"),
        safetensors({}, size=1 << 62),
        safetensors({"x": entry(dtype="F4")}, bytes(8)),
        safetensors({"x": entry(dtype=["F32"])}, bytes(8)),
    ],
)
def test_damaged_safetensors(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(CodecError):
        files.load(path)


@pytest.mark.parametrize("suffix", ["npz", "npy", "pt", "docofl"])
@pytest.mark.parametrize("content", [b"", b"x" * 100, b"PK\x03\x04" + bytes(50), b"\x93NUMPY\1\0"])
def test_files_that_are_none(tmp_path: Path, suffix: str, content: bytes) -> None:
    if suffix == "pt":
        pytest.importorskip("torch")
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(content)
    with pytest.raises(CorruptFrameError):
        files.load(path)


def test_npz_that_lies(tmp_path: Path) -> None:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1073741824, 1024), }"
    member = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode()
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", member + bytes(16))
    with pytest.raises(CorruptFrameError, match="its size is not that of its shape"):
        files.load(tmp_path / "x.npz")


def test_npz_with_a_name_twice(tmp_path: Path) -> None:
    files.save(tmp_path / "x.npz", {"x": np.zeros(3)})
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        content = archive.read("x.npy")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x.npy", content)
    with pytest.raises(CorruptFrameError, match="twice"):
        files.load(tmp_path / "x.npz")


def test_a_docofl_file_can_be_encoded_again(tmp_path: Path, model: dict[str, Any]) -> None:
    path = tmp_path / "m.docofl"
    files.save(path, model, bits=8)
    first: dict[str, Any] = files.load(path)
    files.encode_file(path, path, bits=3)
    second: dict[str, Any] = files.load(path)
    assert list(second) == list(first)
    assert second["head.weight"] is second["embedding.weight"]
    error = second["block.0.weight"] - first["block.0.weight"]
    assert np.sum(error**2) < 0.05 * np.sum(first["block.0.weight"] ** 2)


def test_unknown_suffix(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"found the suffix '.bin', expected one of"):
        files.load(tmp_path / "x.bin")
    with pytest.raises(InvalidInputError, match=r"expected a \.docofl file"):
        files.encode_file(tmp_path / "x.npz", tmp_path / "y.npz")
    with pytest.raises(InvalidInputError, match="expected another format"):
        files.decode_file(tmp_path / "x.docofl", tmp_path / "y.docofl")


def test_damaged_docofl_files(tmp_path: Path, model: dict[str, Any]) -> None:
    path = tmp_path / "m.docofl"
    files.save(path, model)
    content = path.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 200)):
        path.write_bytes(content[:place])
        with pytest.raises(CodecError):
            files.load(path)
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(CodecError):
            files.load(path)


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".npy", ".pt"])
def test_bools_of_any_byte_are_true_or_false(tmp_path: Path, suffix: str) -> None:
    if suffix == ".pt":
        pytest.importorskip("torch")
    source, coded = tmp_path / f"model{suffix}", tmp_path / "model.docofl"
    files.save(source, {"array": np.array([True, False, True])})
    data = source.read_bytes()
    assert data.count(b"\x01\x00\x01") >= 1
    at = data.rindex(b"\x01\x00\x01") if suffix == ".npy" else data.index(b"\x01\x00\x01")
    if suffix in (".npz", ".pt"):  # whose members have checksums
        files.save(source, {"array": np.array([2, 0, 255], np.uint8).view(bool)})
    else:
        source.write_bytes(data[:at] + b"\x02\x00\xff" + data[at + 3 :])
    files.encode_file(source, coded, bits=64)
    restored: Any = files.load(coded, framework="numpy")["array"]
    assert restored.view(np.uint8).tolist() == [1, 0, 1]
    files.verify_file(coded, source)


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".npy"])
@pytest.mark.parametrize("shape", [(0, 2**58), (0,) + (1,) * 40])
def test_shapes_that_no_index_holds(tmp_path: Path, suffix: str, shape: tuple[int, ...]) -> None:
    source, target = tmp_path / f"model{suffix}", tmp_path / "model.docofl"
    if suffix == ".safetensors":
        fields = {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
        header = json.dumps({"array": fields}).encode()
        source.write_bytes(struct.pack("<Q", len(header)) + header)
    else:
        head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
        head = head.ljust(-(-(len(head) + 11) // 64) * 64 - 11) + b"\n"
        array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head
        if suffix == ".npz":
            with zipfile.ZipFile(source, "w") as archive:
                archive.writestr("array.npy", array)
        else:
            source.write_bytes(array)
    target.write_bytes(b"old")
    with pytest.raises(CodecError, match=r"beyond any memory|at most 32|model"):
        files.encode_file(source, target)
    assert target.read_bytes() == b"old"
    with pytest.raises(CodecError):
        files.load(source)


def test_a_limit_counts_tied_tensors_where_they_are_written_each(tmp_path: Path) -> None:
    tensor = np.zeros(1000, np.float32)
    coded = tmp_path / "model.docofl"
    files.save(coded, {f"tied{k}": tensor for k in range(10)}, bits=2)
    with pytest.raises(LimitExceededError, match="40000 bytes, expected at most 39999"):
        files.decode_file(coded, tmp_path / "model.npz", max_output_bytes=39_999)
    files.decode_file(coded, tmp_path / "model.npz", max_output_bytes=40_000)
    with pytest.raises(LimitExceededError):
        files.decode_file(coded, tmp_path / "model.npz", max_output_bytes=float("nan"))  # type: ignore[arg-type]


def test_a_torch_file_that_shows_few_bytes_as_many(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "model.pt"
    torch.save({"w": torch.ones(10).as_strided((2**25, 2**20), (0, 0))}, path)
    with pytest.raises(CorruptFrameError, match="times those of the file"):
        files.load(path)
    torch.save({"w": torch.ones(1).expand(1000)}, path)
    assert files.load(path)["w"].shape == (1000,)


def test_verify_looks_at_values_that_are_not_finite(tmp_path: Path) -> None:
    source, coded = tmp_path / "model.npz", tmp_path / "model.docofl"
    odd = {"z": np.array([1, complex("nan+2j")]), "x": np.array([1, np.nan, np.inf], np.float32)}
    files.save(source, odd)
    files.encode_file(source, coded)
    assert files.verify_file(coded, source).nmse == 0
    files.save(source, {**odd, "x": np.array([1, np.nan, np.nan], np.float32)})
    with pytest.raises(InvalidInputError, match="'x': differs in values that are not finite"):
        files.verify_file(coded, source)
