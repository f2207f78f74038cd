"""The figures: a small run of each, and the paper's claims on the ones that are committed."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from docofl_codec.figures import (
    FIGURES,
    Row,
    Settings,
    add_arguments,
    check_claims,
    main,
    measure_figure,
    read_csv,
    write_csv,
)
from docofl_codec.figures.plots import draw
from docofl_codec.figures.weights import WeightsUnavailableError, load_file

COMMITTED = Path(__file__).resolve().parents[2] / "benchmarks" / "figures"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file of weights."""
    path = tmp_path_factory.mktemp("weights") / "small.npy"
    values = np.random.default_rng(0).standard_t(4, 20_000).astype(np.float32)
    np.save(path, values)
    return path


@pytest.fixture(scope="module")
def settings(weights: Path) -> Settings:
    """A few points of each figure."""
    return Settings(
        repeats=1,
        cnn=weights,
        lstm=weights,
        dimensions=(1024,),
        budgets=(3,),
        gradient_budgets=(1, 2, 4),
        sparse_budgets=(2, 4),
        large_dimension=2**14,
        dimension=4096,
    )


@pytest.fixture(scope="module")
def measured(settings: Settings) -> dict[str, list[Row]]:
    """The rows of every figure."""
    return {name: measure_figure(name, settings, progress=False) for name in FIGURES}


def test_every_codec_has_its_points(measured: dict[str, list[Row]]) -> None:
    counts = {name: len(rows) for name, rows in measured.items()}
    # Kashin's representation needs more than 1 bit.
    assert counts == {
        "gradient": 3 * (3 * 6 - 1),
        "dimension": 12,
        "budget": 12,
        "sparsification": 30,
    }
    for rows in measured.values():
        for row in rows:
            assert row.nmse > 0
            assert row.encode_seconds >= row.encode_seconds_least > 0
            if row.codec != "ECUQ as printed":
                assert row.bits <= row.budget + 8 * 300 / row.dimension


def test_claims_hold_on_a_small_run(measured: dict[str, list[Row]]) -> None:
    rows = [row for rows in measured.values() for row in rows]
    claims = check_claims(rows)
    assert len(claims) == 3 * 2 * 4 + 3 + 3 * 3 + 3 * 2 * 3
    assert [claim for claim in claims if not claim.holds] == []


def test_claims_can_fail(measured: dict[str, list[Row]]) -> None:
    worse = [
        dataclasses.replace(row, nmse=10.0, encode_seconds_least=10.0)
        if row.codec == "ECUQ"
        else row
        for row in measured["budget"]
    ]
    assert not any(claim.holds for claim in check_claims(worse))


def test_rows_survive_a_file(measured: dict[str, list[Row]], tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write_csv(path, measured["budget"])
    again = read_csv(path)
    assert [(row.codec, row.panel, row.budget) for row in again] == [
        (row.codec, row.panel, row.budget) for row in measured["budget"]
    ]
    assert again[0].nmse == pytest.approx(measured["budget"][0].nmse, rel=1e-3)


@pytest.mark.parametrize("name", FIGURES)
def test_pictures(measured: dict[str, list[Row]], name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"{name}.png"
    draw(measured[name], path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_command(
    weights: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("matplotlib")
    small = Settings(gradient_budgets=(2,), large_dimension=4096, sparse_budgets=(2,))
    monkeypatch.setattr(
        "docofl_codec.figures.command.Settings",
        lambda **options: dataclasses.replace(small, **options),
    )
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    options = ["--quick", "--out", str(tmp_path), "--cnn", str(weights), "--lstm", str(weights)]
    chosen = ["--only", "gradient", "--only", "sparsification"]
    assert main(parser.parse_args([*options, *chosen])) == 0
    names = {"gradient.csv", "gradient.png", "sparsification.csv", "sparsification.png"}
    assert {path.name for path in tmp_path.iterdir()} == names | {"machine.json"}
    assert "claims of the paper hold" in capsys.readouterr().out
    assert {row.repeats for row in read_csv(tmp_path / "gradient.csv")} == {1}


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args(
        ["--only", "gradient", "--out", str(tmp_path), "--cnn", str(tmp_path / "none.npy")]
    )
    with pytest.raises(SystemExit, match=r"none\.npy"):
        main(args)


def test_files_of_weights(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((2, 3)), steps=np.arange(3), y=np.zeros(4, np.float32))
    assert load_file(tmp_path / "a.npz").tolist() == [1.0] * 6 + [0.0] * 4
    np.save(tmp_path / "b.npy", np.arange(3))
    with pytest.raises(WeightsUnavailableError, match="no floating-point values"):
        load_file(tmp_path / "b.npy")


def test_checkpoints_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    state = {"w": torch.ones(2, 2), "count": torch.tensor(3), "b": torch.zeros(1)}
    torch.save({"model_state": state, "step": 5}, tmp_path / "a.pt")
    assert load_file(tmp_path / "a.pt").tolist() == [1.0] * 4 + [0.0]


# --- the committed figures ------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_committed_figures_are_complete(name: str) -> None:
    rows = read_csv(COMMITTED / f"{name}.csv")
    assert (COMMITTED / f"{name}.png").exists()
    assert {row.figure for row in rows} == {name}
    panels = (
        ("cnn", "lstm", "lognormal") if name == "gradient" else ("lognormal", "normal", "shifted")
    )
    assert tuple(dict.fromkeys(row.panel for row in rows)) == panels
    assert all(row.repeats >= 3 for row in rows)


@pytest.mark.parametrize("name", FIGURES)
def test_the_claims_of_the_paper_hold(name: str) -> None:
    claims = check_claims(read_csv(COMMITTED / f"{name}.csv"))
    assert claims
    assert [claim for claim in claims if not claim.holds] == []
