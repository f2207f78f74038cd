"""Targets as assertions on ratios of times, taken in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.timing import Call, interleaved_min

REPEATS = 7
MAX_TURNS = 3


def assert_ratio(
    label: str, ours: Call, other: Call, target: float, repeats: int = REPEATS, burst: int = 1
) -> None:
    """Assert that ``ours`` is at least ``target`` times as fast as ``other``."""
    best = _settled_min(
        {"ours": ours, "other": other},
        repeats * burst,
        lambda best: best["other"] >= target * best["ours"],
        burst,
    )
    ratio = best["other"] / best["ours"]
    times = f"{best['ours'] * 1e3:.2f} ms against {best['other'] * 1e3:.2f} ms"
    assert ratio >= target, f"{label}: {ratio:.2f}, target {target} ({times})"


def _settled_min(
    calls: Mapping[str, Call],
    repeats: int,
    settled: Callable[[dict[str, float]], bool],
    burst: int,
) -> dict[str, float]:
    """Take up to `MAX_TURNS` times the repeats, as a busy machine can spoil all of the first."""
    best = interleaved_min(calls, repeats, burst)
    for _ in range(MAX_TURNS - 1):
        if settled(best):
            break
        again = interleaved_min(calls, repeats, burst)
        best = {name: min(best[name], again[name]) for name in calls}
    return best
