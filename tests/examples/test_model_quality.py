"""The example on model quality: its codecs and pictures, and what the committed numbers say."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from examples import model_quality  # noqa: E402

COMMITTED = Path(__file__).parents[2] / "docs" / "figures" / "model_quality.csv"


def small_state() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    return {
        "a.weight": torch.randn(200, 300, generator=generator),
        "a.bias": torch.randn(200, generator=generator),
        "b.weight": torch.randn(100, 200, generator=generator) / 10,
    }


@pytest.mark.parametrize("codec", model_quality.CODECS)
@pytest.mark.parametrize("bits", model_quality.BUDGETS)
def test_codecs_restore_within_their_budget(codec: str, bits: float) -> None:
    state = small_state()
    restored, num_bytes = model_quality.CODECS[codec](state, bits)
    size = sum(tensor.numel() for tensor in state.values())
    assert 8 * num_bytes / size < bits + 0.02
    assert {name: tensor.shape for name, tensor in restored.items()} == {
        name: tensor.shape for name, tensor in state.items()
    }
    assert all(bool(torch.isfinite(tensor).all()) for tensor in restored.values())


def test_rows_table_and_picture(tmp_path: Path) -> None:
    state = small_state()

    def judge(other: dict[str, Any]) -> float:
        return -float(((other["a.weight"] - state["a.weight"]) ** 2).mean())

    rows = model_quality.measure("small", state, judge, -1.0)
    assert len(rows) == 2 + len(model_quality.CODECS) * len(model_quality.BUDGETS)
    model_quality.write_csv(rows, tmp_path / "rows.csv")
    model_quality.draw(rows, tmp_path / "rows.png")
    assert (tmp_path / "rows.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "rows.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(rows)


def test_input_is_the_same_every_time() -> None:
    mels = model_quality.mel_like(3)
    assert mels.shape == (3, 160, 40)
    assert torch.equal(mels, model_quality.mel_like(3))
    assert float(mels.min()) >= 0


def test_committed_numbers() -> None:
    with COMMITTED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for model in ("LeNet", "LSTM"):
        quality = {
            (row["codec"], float(row["budget"])): float(row["quality"])
            for row in rows
            if row["model"] == model
        }
        bits = {float(row["budget"]): float(row["bits"]) for row in rows if row["codec"] == "ECUQ"}
        assert set(bits) == set(model_quality.BUDGETS)
        assert all(real <= budget for budget, real in bits.items())
        for budget in (3.0, 4.0, 6.0):
            assert quality["ECUQ", budget] >= quality["EDEN", budget]
            assert quality["ECUQ", budget] >= quality["plain uniform", budget]
