"""The budget holds for the whole frame, is used, and goes where the error is."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docofl_codec import (
    InvalidInputError,
    decode_state_dict,
    encode_state_dict,
    inspect_state_dict,
    report_state_dict,
)
from docofl_codec.ecuq import Coder
from docofl_codec.state_dict import Choice, TensorSpec
from tests.state_dict.models import num_coordinates, small_model


def allowance(model: dict[str, Any]) -> int:
    """Return what docs/format.md, section 10.4, adds where the budget is small."""
    return 128 + sum(
        64 + len(name.encode()) + 10 * len(tensor.shape) for name, tensor in model.items()
    )


def check_budget(model: dict[str, Any], bits: float, blob: bytes) -> None:
    """Check the promise of docs/format.md, section 10.4."""
    budget = bits * num_coordinates(model) / 8
    extra = allowance(model)
    assert len(blob) <= (budget if int(budget) >= 4 * extra else budget + extra)


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("bits", [0.5, 1, 1.5, 2, 2.7, 4, 6, 8, 12, 16, 24, 32, 40, 64])
def test_the_whole_frame_meets_the_budget(bits: float, flatten: bool) -> None:
    model = small_model()
    blob = encode_state_dict(model, bits=bits, flatten=flatten)
    check_budget(model, bits, blob)
    if 1 <= bits <= 16 and not flatten:
        assert len(blob) >= 0.97 * bits * num_coordinates(model) / 8


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 3000), max_size=8),
    large=st.sampled_from([0, 0, 40_000, 90_000]),
    bits=st.sampled_from([0.01, 0.1, 0.5, 1, 2, 3.3, 8, 30]),
    seed=st.integers(0, 5),
    flatten=st.booleans(),
)
def test_any_model_meets_any_budget(
    sizes: list[int], large: int, bits: float, seed: int, flatten: bool
) -> None:
    rng = np.random.default_rng(seed)
    model = {
        f"layer.{number}.weight": (rng.standard_t(2, size=size) * 10.0 ** rng.integers(-3, 3))
        .astype(np.float32)
        .reshape(-1, 1)
        for number, size in enumerate([*sizes, large])
    }
    blob = encode_state_dict(model, bits=bits, flatten=flatten)
    check_budget(model, bits, blob)
    assert list(decode_state_dict(blob)) == list(model)


def test_large_tensors_share_one_step() -> None:
    rng = np.random.default_rng(0)
    model = {
        f"w{number}": rng.normal(scale=scale, size=(200, 300)).astype(np.float32)
        for number, scale in enumerate((0.02, 0.1, 0.5, 3))
    }
    tensors = report_state_dict(model, encode_state_dict(model, bits=3)).tensors
    steps = [tensor.step or 0 for tensor in tensors]
    assert max(steps) == pytest.approx(min(steps), rel=1e-4)
    bits = [tensor.bits for tensor in tensors]
    assert bits == sorted(bits)
    assert bits[0] < 0.3 < 5 < bits[-1]


def test_one_step_beats_equal_bits_and_the_flat_vector() -> None:
    rng = np.random.default_rng(0)
    model = {
        f"w{number}": rng.normal(scale=scale, size=(300, 300)).astype(np.float32)
        for number, scale in enumerate((0.02, 0.05, 0.1, 0.5))
    }
    blob = encode_state_dict(model, bits=2)
    flat = encode_state_dict(model, bits=2, flatten=True)
    nmse = report_state_dict(model, blob).nmse or 0
    assert nmse < 0.8 * (report_state_dict(model, flat).nmse or 0)
    singles = {name: encode_state_dict({name: x}, bits=2) for name, x in model.items()}
    error = sum(
        float(np.sum((np.asarray(decode_state_dict(singles[name])[name]) - x) ** 2))
        for name, x in model.items()
    )
    assert nmse < 0.2 * error / sum(float(np.sum(x**2)) for x in model.values())


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("bits", [0.5, 1, 2, 4, 6])
@pytest.mark.parametrize("coder", ["rans", "auto"])
def test_other_coders_meet_the_budget(coder: Coder, bits: float, flatten: bool) -> None:
    model = small_model()
    blob = encode_state_dict(model, bits=bits, coder=coder, flatten=flatten)
    check_budget(model, bits, blob)
    assert list(decode_state_dict(blob)) == list(model)


def test_rans_has_less_error_where_rows_differ() -> None:
    """Parts of a tensor get code tables of their own."""
    rng = np.random.default_rng(1)
    spreads = np.exp(rng.standard_normal((256, 1)))
    model = {"w": (spreads * rng.standard_normal((256, 4096))).astype(np.float32)}
    coders: tuple[Coder, ...] = ("huffman", "rans", "auto")
    errors = {
        coder: report_state_dict(model, encode_state_dict(model, bits=2, coder=coder)).nmse or 0
        for coder in coders
    }
    assert errors["rans"] < 0.9 * errors["huffman"]
    assert errors["auto"] <= 1.001 * errors["rans"]


def test_coders_that_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="coder: found 'zip', expected \"huffman\""):
        encode_state_dict(small_model(), coder=cast(Any, "zip"))
    with pytest.raises(InvalidInputError, match='coder: found "huffman" with quality "best"'):
        encode_state_dict(small_model(), coder="huffman", quality="best")


def test_flatten_codes_every_float() -> None:
    model = small_model()
    info = inspect_state_dict(encode_state_dict(model, bits=4, flatten=True))
    stores = {tensor.name: tensor.store for tensor in info.tensors}
    assert info.flat
    assert stores["bn.weight"] == stores["scalar"] == stores["embedding.weight"] == "coded"
    assert stores["mask"] == stores["bn.num_batches_tracked"] == "exact"


def test_default_rules() -> None:
    rng = np.random.default_rng(0)
    shapes = {
        "conv.weight": (64, 64, 3, 3),
        "conv.bias": (64,),
        "norm.weight": (512,),
        "relative_position_bias": (40, 100),
        "bn1.running_mean": (512,),
        "encoder.norm_out.weight": (300, 300),
        "vector": (100_000,),
        "lnx.weight": (80, 80),
        "small": (4, 4),
    }
    model = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    info = inspect_state_dict(encode_state_dict(model, bits=7))
    coded = [tensor.name for tensor in info.tensors if tensor.store == "coded"]
    assert coded == ["conv.weight", "encoder.norm_out.weight", "vector", "lnx.weight"]
    generous = inspect_state_dict(encode_state_dict(model, bits=12))
    assert generous.tensors[1].store == "exact"


def test_small_tensors_are_coded_where_they_would_eat_the_budget() -> None:
    rng = np.random.default_rng(0)
    model = {f"b{n}": rng.normal(size=1000).astype(np.float32) for n in range(50)}
    blob = encode_state_dict(model, bits=2)
    check_budget(model, 2, blob)
    stores = [tensor.store for tensor in inspect_state_dict(blob).tensors]
    assert 0 < stores.count("coded") < 50


def test_rules_override() -> None:
    model = small_model()
    rules: dict[str, Choice] = {"bn.*": "exact", "*.bias": "code", "embedding*": "half"}
    blob = encode_state_dict(model, bits=9, rules=rules)
    restored: Any = decode_state_dict(blob)
    stores = {tensor.name: tensor.store for tensor in inspect_state_dict(blob).tensors}
    assert np.array_equal(restored["bn.running_var"], model["bn.running_var"])
    assert stores["bn.weight"] == "exact"
    assert stores["block.0.bias"] == "coded"
    assert stores["embedding.weight"] in ("float16", "bfloat16")

    def large_exact(spec: TensorSpec) -> Choice | None:
        return "exact" if spec.size > 10_000 and spec.dtype == "float16" else None

    blob = encode_state_dict(model, bits=9, rules=large_exact)
    assert np.array_equal(np.asarray(decode_state_dict(blob)["half"]), model["half"])


@pytest.mark.parametrize("rules", [{"*": "Exact"}, {"*": None}, lambda spec: spec.name])
def test_bad_rules(rules: Any) -> None:
    model = {"w": np.zeros((200, 200), np.float32) + np.arange(200, dtype=np.float32)}
    if rules == {"*": None}:
        encode_state_dict(model, rules=rules)
        return
    with pytest.raises(InvalidInputError, match=r"rules: found .* for 'w', expected one of code"):
        encode_state_dict(model, rules=rules)


def test_rules_of_a_wrong_kind() -> None:
    x = np.arange(40_000, dtype=np.float32)
    with pytest.raises(TypeError, match="rules: found list"):
        encode_state_dict({"w": x}, rules=["w"])  # type: ignore[arg-type]
    blob = encode_state_dict({"w": x, "n": np.arange(3)}, rules={"*": "code"})
    assert [tensor.store for tensor in inspect_state_dict(blob).tensors] == ["coded", "exact"]


def test_what_cannot_meet_the_budget_says_what_would() -> None:
    rng = np.random.default_rng(0)
    model: dict[str, Any] = {
        "n": rng.integers(0, 2**62, size=1000),
        "w": np.zeros((100, 100), np.float32),
    }
    with pytest.raises(InvalidInputError, match=r"bits: found 2, .* expected about 5\.\d+ or more"):
        encode_state_dict(model, bits=2)
    check_budget(model, 7, encode_state_dict(model, bits=7))


@pytest.mark.parametrize("bits", [0, -1, 0.009, 64.1, float("nan"), float("inf")])
def test_bits_out_of_range(bits: float) -> None:
    with pytest.raises(InvalidInputError, match=r"bits: found .*, expected .* 0\.01 to 64"):
        encode_state_dict({"x": np.zeros(3, np.float32)}, bits=bits)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("size", [2000, 70_000])
def test_values_that_are_not_finite_are_named(bad: float, size: int) -> None:
    model = {f"w{n}": np.ones((size // 2, 2), np.float32) for n in range(3)}
    model["w0"][:] = np.random.default_rng(0).normal(size=model["w0"].shape)
    model["w1"][7, 1] = bad
    with pytest.raises(InvalidInputError, match=r"tensor 'w1': .*index 15"):
        encode_state_dict(model)
    restored: Any = decode_state_dict(encode_state_dict(model, bits=20, rules={"w1": "exact"}))
    assert np.array_equal(restored["w1"], model["w1"], equal_nan=True)


def test_few_values_stay_exact() -> None:
    rng = np.random.default_rng(0)
    x = rng.choice(np.array([-0.7, 0, 0.3], np.float32), size=(200, 300))
    assert np.array_equal(np.asarray(decode_state_dict(encode_state_dict({"x": x}))["x"]), x)


def test_zeros_stay_zero() -> None:
    rng = np.random.default_rng(0)
    model = {f"w{n}": rng.normal(size=(200, 300)).astype(np.float32) for n in range(3)}
    for x in model.values():
        x[rng.random(x.shape) < 0.8] = 0
    for name, restored in decode_state_dict(encode_state_dict(model, bits=2)).items():
        assert not np.asarray(restored)[model[name] == 0].any()


def test_outliers_do_not_spoil_the_rest() -> None:
    rng = np.random.default_rng(0)
    model = {f"w{n}": rng.normal(size=(300, 300)).astype(np.float32) for n in range(3)}
    clean = report_state_dict(model, encode_state_dict(model, bits=3))
    model["w1"][0, 0] = 497160
    report = report_state_dict(model, encode_state_dict(model, bits=3))
    assert (report.tensors[2].nmse or 1) < 1.1 * (clean.tensors[2].nmse or 0)


@pytest.mark.parametrize("value", [-10, -1e4, -1e9, np.finfo(np.float32).min])
@pytest.mark.parametrize("bits", [2, 4, 6, 8])
def test_a_mask_beside_weights(bits: float, value: float) -> None:
    """It is exact, takes next to nothing, and the budget goes to the weights."""
    rng = np.random.default_rng(0)
    w = (0.05 * rng.standard_normal((400, 400))).astype(np.float32)
    mask = np.where(np.tri(256, dtype=bool), 0, value).astype(np.float32)
    blob = encode_state_dict({"w": w, "mask": mask}, bits=bits)
    restored = decode_state_dict(blob)
    assert np.array_equal(restored["mask"], mask)
    assert 8 * len(blob) >= 0.95 * bits * (w.size + mask.size)
    alone = decode_state_dict(encode_state_dict({"w": w}, bits=bits))
    errors = [np.mean((np.asarray(model["w"]) - w) ** 2) for model in (restored, alone)]
    assert errors[0] < 1.05 * errors[1]


ODD_TENSORS = {
    "few values": lambda rng: np.clip(np.rint(40 * rng.standard_normal((300, 300))), -127, 127),
    "far values": lambda rng: 1e34 * rng.integers(0, 200, (300, 300)),
    "far from zero": lambda rng: 1e30 + 1e24 * rng.standard_normal((300, 300)),
    "heavy tails": lambda rng: rng.standard_cauchy((300, 300)),
    "pruned": lambda rng: rng.standard_normal((300, 300)) * (rng.random((300, 300)) < 0.1),
    "sparse": lambda rng: rng.standard_normal((300, 300)) * (rng.random((300, 300)) < 0.03),
}


@pytest.mark.parametrize("bits", [0.5, 1, 2])
@pytest.mark.parametrize("kind", ODD_TENSORS)
def test_the_budget_is_used_beside_odd_tensors(kind: str, bits: float) -> None:
    rng = np.random.default_rng(0)
    model = {
        "odd": ODD_TENSORS[kind](rng).astype(np.float32),
        "w": (0.02 * rng.standard_normal((300, 300))).astype(np.float32),
    }
    blob = encode_state_dict(model, bits=bits)
    check_budget(model, bits, blob)
    used = 8 * len(blob) / (bits * num_coordinates(model))
    # Different values that float32 holds no finer are exact sooner.
    assert used >= (0.6 if kind == "far from zero" else 0.9)


def test_a_constant_at_the_end_of_float32() -> None:
    rng = np.random.default_rng(0)
    constant = np.full((300, 300), np.finfo(np.float32).min)
    w = (0.02 * rng.standard_normal((300, 300))).astype(np.float32)
    restored = decode_state_dict(encode_state_dict({"constant": constant, "w": w}, bits=2))
    assert np.array_equal(restored["constant"], constant)
    assert np.mean((np.asarray(restored["w"]) - w) ** 2) < 0.02 * np.mean(w**2)


@pytest.mark.parametrize("spread", [1.0, 50.0, 5000.0])
def test_a_tensor_of_large_values_takes_its_share(spread: float) -> None:
    rng = np.random.default_rng(0)
    model = {
        "w": (0.05 * rng.standard_normal((512, 512))).astype(np.float32),
        "large": (spread * rng.standard_normal(40_000)).astype(np.float32),
    }
    blob = encode_state_dict(model, bits=4)
    assert 8 * len(blob) >= 0.95 * 4 * num_coordinates(model)


def test_one_tensor_of_huge_values_leaves_the_others_alone() -> None:
    rng = np.random.default_rng(0)
    good = rng.normal(size=(300, 300)).astype(np.float32)
    constant = np.full((300, 300), 1e20, np.float32)
    wild = rng.normal(size=(300, 300)).astype(np.float32)
    wild[299, 299] = 1e30
    for other in (constant, wild):
        model = {"good": good, "other": other}
        report = report_state_dict(model, encode_state_dict(model, bits=2))
        assert (report.tensors[0].nmse or 1) < 0.02
        assert report.bits_per_coordinate > 1.9


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("bits", [0.5, 2, 8])
@pytest.mark.parametrize("still", [0.0, 1.0])
def test_a_few_rows_of_an_embedding_beside_tensors_that_stand_still(
    still: float, bits: float, dtype: Any
) -> None:
    """No sample sees the rows that changed."""
    rng = np.random.default_rng(0)
    update = np.full((20_000, 128), still, dtype)
    update[[17, 12_345]] += (0.01 * rng.normal(size=(2, 128))).astype(dtype)
    model = {"embedding": update, "frozen": np.full((256, 256), still, dtype)}
    blob = encode_state_dict(model, bits=bits)
    check_budget(model, bits, blob)
    restored = decode_state_dict(blob)
    np.testing.assert_array_equal(restored["frozen"], model["frozen"])
    error = np.asarray(restored["embedding"], np.float64) - update
    change = update.astype(np.float64) - still
    assert np.square(error).sum() <= 1e-4 * np.square(change).sum()


@pytest.mark.parametrize("bits", [0.011, 0.013, 0.02])
def test_a_hundredth_of_a_bit_is_used(bits: float) -> None:
    """Rare values in two tensors, as good as in one flat vector or nearly so."""
    rng = np.random.default_rng(1)
    model = {}
    for name in ("a", "b"):
        tensor = np.zeros(2_000_000, np.float32)
        places = rng.choice(tensor.size, 400, replace=False)
        tensor[places] = rng.normal(size=places.size)
        model[name] = tensor
    blob = encode_state_dict(model, bits=bits)
    check_budget(model, bits, blob)
    restored = decode_state_dict(blob)
    error = sum(np.square(restored[name] - tensor).sum() for name, tensor in model.items())
    assert error <= 0.2 * sum(np.square(tensor).sum() for tensor in model.values())


@pytest.mark.parametrize("bits", [2, 8])
def test_the_tensor_with_a_nan_is_named_beside_a_wide_one(bits: float) -> None:
    """Both share a frame, and the wide one cannot have the step of the others."""
    rng = np.random.default_rng(2)
    model = {f"weight{k}": rng.normal(size=200_000).astype(np.float32) for k in range(3)}
    model["wide"] = (1e30 * rng.normal(size=(40, 40))).astype(np.float32)
    model["bad"] = rng.normal(size=(40, 40)).astype(np.float32)
    model["bad"][0, :2] = np.nan
    with pytest.raises(InvalidInputError, match=r"tensor 'bad': .*2 value\(s\)"):
        encode_state_dict(model, bits=bits)
