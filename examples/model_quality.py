"""What a budget does to a task: accuracy of a classifier and embeddings of a speaker encoder.

Two trained models are compressed as whole state dicts at several budgets and used again:

* LeNet on EMNIST, trained here by the bundled federated loop (``DOCOFL_DATA`` says where the data
  are): accuracy on the test set.
* The LSTM of Resemblyzer (three LSTM layers and a linear one, downloaded once with pip): cosine
  similarity of its embeddings to those of the exact weights. No speech is bundled; the input is
  synthetic, made like mel spectrograms of voiced sound, from a fixed seed.

``python examples/model_quality.py`` writes model_quality.csv and .png; needs the extra ``fl``.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from docofl_codec import decode_state_dict, eden, encode_state_dict, fl
from docofl_codec._progress import ProgressBar
from docofl_codec.figures.weights import load_published

BUDGETS = (8.0, 6.0, 4.0, 3.0, 2.0, 1.5)

StateDict = dict[str, torch.Tensor]
Judge = Callable[[StateDict], float]


@dataclass(frozen=True)
class Row:
    """One model at one budget by one codec."""

    model: str
    codec: str
    budget: float
    bits: float
    quality: float


# --- codecs: a state dict and a budget to the restored one and its real bytes ---------------------


def ecuq_fast(state: StateDict, bits: float) -> tuple[StateDict, int]:
    """Code the whole state dict by ECUQ."""
    blob = encode_state_dict(state, bits=bits)
    return _tensors(decode_state_dict(blob)), len(blob)


def ecuq_best(state: StateDict, bits: float) -> tuple[StateDict, int]:
    """Code the whole state dict by ECUQ with dependent quantization."""
    blob = encode_state_dict(state, bits=bits, quality="best")
    return _tensors(decode_state_dict(blob)), len(blob)


def eden_flat(state: StateDict, bits: float) -> tuple[StateDict, int]:
    """Code the flat vector by EDEN, with the scale of the smallest error."""
    flat = torch.cat([tensor.reshape(-1) for tensor in state.values()])
    blob = eden.encode(flat, bits=bits, seed=1, scale="mse")
    restored: Any = eden.decode(blob)
    parts = torch.split(restored, [tensor.numel() for tensor in state.values()])
    shaped = zip(state.items(), parts, strict=True)
    return {name: part.view(tensor.shape) for (name, tensor), part in shaped}, len(blob)


def uniform(state: StateDict, bits: float) -> tuple[StateDict, int]:
    """Round every tensor to equal levels between its ends, as many as words of `bits` bits tell."""
    levels = int(2**bits)
    restored, num_bits = {}, 0.0
    for name, tensor in state.items():
        low, high = tensor.min(), tensor.max()
        step = (high - low) / (levels - 1)
        rounded = torch.round((tensor - low) / step) if step > 0 else torch.zeros_like(tensor)
        restored[name] = low + rounded * step
        num_bits += np.log2(levels) * tensor.numel() + 64
    return restored, int(np.ceil(num_bits / 8))


CODECS = {
    "ECUQ": ecuq_fast,
    "ECUQ, best": ecuq_best,
    "EDEN": eden_flat,
    "plain uniform": uniform,
}


def _tensors(state: dict[str, Any]) -> StateDict:
    return {name: torch.as_tensor(tensor) for name, tensor in state.items()}


# --- models: a state dict, and what judges another one --------------------------------------------


def emnist_lenet(rounds: int, data: str | None, folder: Path) -> tuple[StateDict, Judge, float]:
    """Train LeNet with the bundled loop; judge by test accuracy in percent, of which a guess."""
    config = fl.RunConfig(
        task="emnist", codec="fedavg", rounds=rounds, eval_every=rounds, data=data, threads=1
    )
    runner = fl.Runner(config, folder)
    with ProgressBar("training LeNet", rounds) as bar:
        for _ in runner.rounds():
            bar.step()
    trainer = runner.trainer
    trainer.evaluate(runner.server.weights)  # leaves these weights in the model
    state = {name: tensor.clone() for name, tensor in trainer.model.module.state_dict().items()}

    def judge(other: StateDict) -> float:
        weights = torch.cat([other[name].reshape(-1) for name in state]).numpy()
        return 100 * trainer.evaluate(weights).test_accuracy

    return state, judge, 100 / state["layers.11.bias"].numel()


class SpeakerEncoder(nn.Module):
    """The network of Resemblyzer: mel spectrograms to embeddings of unit length."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        """Return the embeddings of n x 160 x 40 spectrograms."""
        _, (hidden, _) = self.lstm(mels)
        return nn.functional.normalize(torch.relu(self.linear(hidden[-1])), dim=1)


def resemblyzer() -> tuple[StateDict, Judge, float]:
    """Return the published weights; judge by the mean cosine similarity of embeddings.

    The third value is what embeddings of different inputs have.
    """
    encoder = SpeakerEncoder()
    flat = torch.from_numpy(load_published("lstm").copy())
    sizes = [parameter.numel() for parameter in encoder.state_dict().values()]
    # Two scalars of the training loss come first.
    parts = torch.split(flat[flat.numel() - sum(sizes) :], sizes)
    named = zip(encoder.state_dict().items(), parts, strict=True)
    state = {name: part.view(tensor.shape).clone() for (name, tensor), part in named}
    mels = mel_like(num=48)

    @torch.no_grad()
    def embed(weights: StateDict) -> torch.Tensor:
        encoder.load_state_dict(weights)
        embeddings: torch.Tensor = encoder(mels)
        return embeddings

    exact = embed(state)
    others = float((exact @ exact.roll(1, 0).T).trace() / len(exact))
    return state, lambda other: float((embed(other) * exact).sum(dim=1).mean()), others


def mel_like(num: int, frames: int = 160, bands: int = 40) -> torch.Tensor:
    """Return powers in mel bands like those of voiced sound: moving formants, pauses, a tilt."""
    rng = np.random.default_rng(0)
    time = np.linspace(0, 1.6, frames)[:, None]
    band = np.arange(bands)[None, :]
    voices = []
    for _ in range(num):
        power = np.zeros((frames, bands))
        for centre, width in ((6, 2.0), (14, 2.5), (24, 3.5)):
            middle = centre * rng.uniform(0.8, 1.25) + rng.uniform(1, 3) * np.sin(
                2 * np.pi * (rng.uniform(1, 4) * time + rng.uniform())
            )
            power += rng.uniform(0.3, 1) * np.exp(-(((band - middle) / width) ** 2))
        syllables = np.clip(np.sin(2 * np.pi * (rng.uniform(2, 5) * time + rng.uniform())), 0, 1)
        noise = rng.exponential(0.02, size=power.shape)
        voices.append((power * syllables + noise) * np.exp(-band / rng.uniform(10, 25)))
    return torch.from_numpy(np.stack(voices).astype(np.float32))


# --- measuring and drawing ------------------------------------------------------------------------


def measure(name: str, state: StateDict, judge: Judge, chance: float) -> list[Row]:
    """Return a row for every codec and budget, one for the exact weights and one for chance."""
    size = sum(tensor.numel() for tensor in state.values())
    rows = [Row(name, "exact", 32.0, 32.0, judge(state)), Row(name, "chance", 0.0, 0.0, chance)]
    with ProgressBar(f"judging {name}", len(CODECS) * len(BUDGETS)) as bar:
        for codec, code in CODECS.items():
            for budget in BUDGETS:
                restored, num_bytes = code(state, budget)
                rows.append(Row(name, codec, budget, 8 * num_bytes / size, judge(restored)))
                bar.step()
    return rows


CHANCE = {"LeNet": "a guess", "LSTM": "different inputs"}
STYLES: dict[str, dict[str, Any]] = {
    "ECUQ": {"color": "#000000", "marker": "o", "linewidth": 2.2, "zorder": 5},
    "ECUQ, best": {"color": "#D55E00", "marker": "o", "fillstyle": "none"},
    "EDEN": {"color": "#0072B2", "marker": "s"},
    "plain uniform": {"color": "#E69F00", "marker": "^"},
}


def draw(rows: Iterable[Row], path: Path) -> None:
    """Write a PNG: quality over real bits a coordinate, a panel a model."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = list(rows)
    models = list(dict.fromkeys(row.model for row in rows))
    figure = Figure(figsize=(5.2 * len(models), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    labels = {"LeNet": "test accuracy on EMNIST in %", "LSTM": "mean cosine of embeddings"}
    for axis, model in zip(np.atleast_1d(figure.subplots(1, len(models))), models, strict=True):
        mine = [row for row in rows if row.model == model]
        exact = next(row.quality for row in mine if row.codec == "exact")
        chance = next(row.quality for row in mine if row.codec == "chance")
        axis.axhline(exact, color="#7f7f7f", linestyle="--", label="exact, 32 bits")
        axis.axhline(chance, color="#7f7f7f", linestyle=":", label=CHANCE.get(model, "chance"))
        for codec, style in STYLES.items():
            points = sorted((row.bits, row.quality) for row in mine if row.codec == codec)
            if points:
                axis.plot(*zip(*points, strict=True), label=codec, **style)
        axis.set_xscale("log", base=2)
        axis.set_xticks(BUDGETS, [f"{budget:g}" for budget in BUDGETS])
        axis.minorticks_off()
        axis.set_xlabel("bits a coordinate, all bytes counted")
        axis.set_ylabel(labels.get(model, "quality"))
        axis.set_title({"LeNet": "LeNet", "LSTM": "Resemblyzer's LSTM"}.get(model, model))
        axis.grid(alpha=0.3)
        axis.legend(fontsize=9, loc="lower right")
    figure.savefig(path, dpi=130)


def write_csv(rows: Iterable[Row], path: Path) -> None:
    """Write the rows."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(Row.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            rounded = {"bits": round(row.bits, 4), "quality": round(row.quality, 5)}
            writer.writerow({**asdict(row), **rounded})


def main() -> None:
    """Measure both models, print a table, write CSV and PNG."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60, help="of training; default: 60")
    parser.add_argument("--data", help="folder of EMNIST; default: $DOCOFL_DATA")
    parser.add_argument("--out", type=Path, default=Path("model_quality"), metavar="DIR")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    folder = options.out / f"emnist-{options.rounds}"
    rows = measure("LeNet", *emnist_lenet(options.rounds, options.data, folder))
    rows += measure("LSTM", *resemblyzer())
    for row in rows:
        print(f"{row.model:6} {row.codec:14} {row.bits:7.3f} bits  {row.quality:.4f}")
    write_csv(rows, options.out / "model_quality.csv")
    draw(rows, options.out / "model_quality.png")
    print(options.out / "model_quality.png")


if __name__ == "__main__":
    main()
