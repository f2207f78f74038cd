"""DoCoFL on Flower's engines: simulated nodes; SuperNodes of which one is killed, one is stopped.

The engines run at the same time; each waits for most of it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from docofl_codec.framework import UniformParticipation
from examples import flower_demo
from examples.flower_demo import Engine, Sandbox
from tests.helpers.processes import child_environment

pytestmark = pytest.mark.integration

APP = Path(__file__).parent / "flower_app"
SECONDS = 800  # after which an engine counts as hung
GRACE_SECONDS = 120  # for a result, once there is no more log
FAILED = -1
NODES = 8
SIMULATED_ROUNDS = 20
DEPLOYED_ROUNDS = 3
ROUNDS_WITH_KILL = 6
ROUNDS_WITH_STOP = 5
STOPPED_AFTER, RESUMED_AFTER = 1, 3
FAULTS = {1: "garbage", 3: "huge", 4: "nan", 6: "shape"}
README = flower_demo.APP / "README.md"
PARTICIPATION = UniformParticipation(NODES, NODES // 2, lead=2, seed=0)


@dataclass
class Outcome:
    """What an engine did."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)  # by phase
    status: int | None = None
    log: str = ""
    engine_log: str = ""
    left_over: list[int] = field(default_factory=list)
    seconds: float = 0.0


def read_rows(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    return {row["phase"]: row for row in json.loads(path.read_text(encoding="utf-8"))}


def num_rounds(path: Path, phase: str) -> int:
    """Return how many rounds a phase has done."""
    return len(read_rows(path).get(phase, {}).get("accuracies", [None])) - 1


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], end: float) -> None:
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.2)


def has_ended(path: Path, phases: str) -> bool:
    """Tell whether an app has written all that it writes of some phases."""
    rows = read_rows(path)
    return all("metrics" in rows.get(phase, {}) for phase in phases.split())


def is_whole(path: Path) -> bool:
    """Tell whether a list has been written to its end."""
    return path.exists() and path.read_text(encoding="utf-8").endswith("]")


def finish(
    process: subprocess.Popen[bytes], end: float, has_result: Callable[[], bool]
) -> int | None:
    """Wait for ``flwr run`` and for the result.

    Its exit code is that of the log's stream: 0 for runs that failed, and for those that go on
    where the stream breaks off.
    """
    try:
        status = process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    end = min(end, time.monotonic() + GRACE_SECONDS)
    while not has_result():
        if time.monotonic() > end:
            return FAILED
        time.sleep(0.2)
    return status


def simulate(app: Path, run_config: str, phases: str = "") -> Outcome:
    """Run an app on simulated nodes."""
    begin = time.monotonic()
    outcome = Outcome()
    with Engine(simulation=True) as engine:
        results = engine.folder / "results.json"
        run = engine.run(
            app,
            run_config=f'{run_config} results="{results}"',
            federation_config=f"num-supernodes={NODES} client-resources-num-cpus=1",
        )
        if phases:
            outcome.status = finish(run, begin + SECONDS, lambda: has_ended(results, phases))
            outcome.rows = read_rows(results)
        else:
            outcome.status = finish(run, begin + SECONDS, lambda: is_whole(results))
            rows = json.loads(results.read_text(encoding="utf-8")) if is_whole(results) else []
            outcome.rows = {row["strategy"]: row for row in rows}
        outcome.log, outcome.engine_log = engine.log(), engine.log("superlink.log")
    outcome.left_over = engine.processes()
    outcome.seconds = time.monotonic() - begin
    return outcome


def deploy() -> Outcome:
    """Do two runs on two SuperNodes at once; kill one node in the second and start it again."""
    begin = time.monotonic()
    end = begin + SECONDS
    outcome = Outcome()
    with Engine(simulation=False) as engine:
        nodes = [engine.start_node(partition, 2) for partition in range(2)]
        paths = {phase: engine.folder / f"{phase}.json" for phase in ("fedavg", "docofl")}
        runs = {
            phase: engine.run(
                APP,
                run_config=f'phases="{phase}" rounds={rounds} results="{paths[phase]}" '
                "deploy-every=2 lead=1",
            )
            for phase, rounds in (("fedavg", DEPLOYED_ROUNDS), ("docofl", ROUNDS_WITH_KILL))
        }
        plain = finish(runs["fedavg"], end, lambda: has_ended(paths["fedavg"], "fedavg"))
        docofl = runs["docofl"]
        wait_for(lambda: num_rounds(paths["docofl"], "docofl") >= DEPLOYED_ROUNDS, docofl, end)
        engine.end_node(nodes[1])
        killed_after = num_rounds(paths["docofl"], "docofl")
        engine.start_node(1, 2)
        outcome.status = finish(docofl, end, lambda: has_ended(paths["docofl"], "docofl"))
        outcome.status = outcome.status if plain == 0 else plain
        outcome.rows = {phase: read_rows(path).get(phase, {}) for phase, path in paths.items()}
        outcome.rows["docofl"]["killed_after"] = killed_after
        if outcome.status == 0:
            outcome.status = stop_a_node(engine, nodes[0], outcome, end)
        outcome.log, outcome.engine_log = engine.log(), engine.log("superlink.log")
    outcome.left_over = engine.processes()
    outcome.seconds = time.monotonic() - begin
    return outcome


def stop_a_node(
    engine: Engine, node: subprocess.Popen[bytes], outcome: Outcome, end: float
) -> int | None:
    """Do a run in which a node freezes, without a word, and thaws again."""
    results = engine.folder / "silent.json"
    run = engine.run(
        APP,
        run_config=f'phases="silent" rounds={ROUNDS_WITH_STOP} results="{results}" '
        "deploy-every=2 lead=1 patience=20.0",
    )

    def has_done(count: int) -> None:
        wait_for(lambda: num_rounds(results, "silent") >= count, run, end)

    has_done(STOPPED_AFTER)
    engine.signal_node(node, signal.SIGSTOP)
    frozen = time.monotonic()
    has_done(RESUMED_AFTER)
    seconds = time.monotonic() - frozen
    engine.signal_node(node, signal.SIGCONT)
    status = finish(run, end, lambda: has_ended(results, "silent"))
    outcome.rows["silent"] = {**read_rows(results).get("silent", {}), "frozen_seconds": seconds}
    return status


def has_line(sandbox: Sandbox, log: str, beginning: str) -> bool:
    """Tell whether a line of results is in a log."""
    lines = sandbox.log(log).splitlines()
    return any(line.startswith(beginning) and "MB sent" in line for line in lines)


def do_as_the_readme_says() -> Outcome:
    """Run the example's commands, line by line, in a copy of its folder."""
    begin = time.monotonic()
    outcome = Outcome(status=0)
    commands = [line for line in README.read_text().splitlines() if line.startswith("flwr run")]
    with Sandbox() as sandbox:
        copy = sandbox.copy(flower_demo.APP)
        for number, command in enumerate(commands):
            run = sandbox.start(shlex.split(command), f"{number}.log", copy)
            log = f"{number}.log"
            has_result = partial(has_line, sandbox, log, "docofl ")
            outcome.status = finish(run, begin + SECONDS, has_result) or outcome.status
            outcome.log += sandbox.log(log)
        outcome.rows["processes"] = {"count": len(sandbox.processes())}
    outcome.left_over = sandbox.processes()
    outcome.seconds = time.monotonic() - begin
    return outcome


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """Run everything, once."""
    os.environ["PYTHONPATH"] = child_environment()["PYTHONPATH"]
    # Traced by coverage.py, apps were seen to vanish from sys.modules while they were imported.
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
    faults = " ".join(f"{partition}:{fault}" for partition, fault in FAULTS.items())
    phases = "fedavg docofl faulty"
    run_config = f'phases="{phases}" rounds={SIMULATED_ROUNDS} fraction-train=0.5 faults="{faults}"'
    with ThreadPoolExecutor() as executor:
        deployed = executor.submit(deploy)
        simulated = simulate(APP, run_config, phases)
        example = simulate(flower_demo.APP, "num-server-rounds=10")
        readme = do_as_the_readme_says()
        found = {"simulation": simulated, "example": example, "readme": readme}
        found["deployment"] = deployed.result()
    for name, outcome in found.items():
        print(f"{name}: {outcome.seconds:.0f} s")
        for phase, row in outcome.rows.items():
            accuracy = row.get("accuracy") or row.get("accuracies", [None])[-1]
            print(f"  {phase}: accuracy {accuracy}, {row.get('bytes') or row.get('megabytes')}")
    return found


@pytest.fixture
def simulation(outcomes: dict[str, Outcome]) -> Outcome:
    return outcomes["simulation"]


@pytest.fixture
def deployment(outcomes: dict[str, Outcome]) -> Outcome:
    return outcomes["deployment"]


def total(row: dict[str, Any], name: str) -> float:
    return sum(float(metrics[f"docofl-{name}"]) for metrics in row["metrics"])


@pytest.mark.parametrize("name", ["simulation", "deployment", "example", "readme"])
def test_runs_end_well_and_leave_no_process(outcomes: dict[str, Outcome], name: str) -> None:
    outcome = outcomes[name]
    assert outcome.status == 0, outcome.engine_log[-5000:] + outcome.log[-5000:]
    assert outcome.left_over == []
    assert outcome.seconds < SECONDS


# --- simulation ----------------------------------------------------------------------------------


def test_simulated_docofl_is_as_good_as_fedavg(simulation: Outcome) -> None:
    plain, ours = simulation.rows["fedavg"], simulation.rows["docofl"]
    assert plain["accuracies"][-1] > plain["accuracies"][0] + 0.5
    assert ours["accuracies"][-1] == pytest.approx(plain["accuracies"][-1], abs=0.025)


def test_simulated_docofl_sends_at_most_a_fifth(simulation: Outcome) -> None:
    plain, ours = simulation.rows["fedavg"], simulation.rows["docofl"]
    assert ours["bytes"] <= plain["bytes"] / 5
    kinds = ("anchor", "late-anchor", "correction", "update", "other")
    booked = sum(total(ours, f"{kind}-bytes") for kind in kinds)
    assert booked == pytest.approx(ours["bytes"], rel=0.02)
    assert total(ours, "anchor-bytes") > 0
    assert total(ours, "late-anchor-bytes") < total(ours, "correction-bytes") / 5


def test_all_simulated_nodes_are_heard(simulation: Outcome) -> None:
    ours = simulation.rows["docofl"]
    assert total(ours, "accepted") == total(ours, "asked") == SIMULATED_ROUNDS * NODES / 2
    assert total(ours, "resynchronised") == 0
    assert ours["num_batches"] == 20 * SIMULATED_ROUNDS


def test_sampling_follows_partitions_not_node_ids(simulation: Outcome) -> None:
    for t, metrics in enumerate(simulation.rows["docofl"]["metrics"]):
        expected = sum(2**partition for partition in PARTICIPATION.participants(t))
        assert metrics["mask"] * NODES / 2 == pytest.approx(expected)


def test_bad_clients_are_dropped_and_counted(simulation: Outcome) -> None:
    faulty = simulation.rows["faulty"]
    for t, metrics in enumerate(faulty["metrics"]):
        bad = sum(partition in FAULTS for partition in PARTICIPATION.participants(t))
        assert metrics["docofl-dropped"] == bad
        assert metrics["docofl-accepted"] == NODES // 2 - bad
    assert total(faulty, "dropped") > 10
    assert faulty["accuracies"][-1] > simulation.rows["fedavg"]["accuracies"][-1] - 0.06


# --- deployment ----------------------------------------------------------------------------------


def test_deployed_docofl_is_as_good_as_fedavg(deployment: Outcome) -> None:
    plain, ours = deployment.rows["fedavg"], deployment.rows["docofl"]
    assert len(plain["accuracies"]) == DEPLOYED_ROUNDS + 1
    after = ours["accuracies"][DEPLOYED_ROUNDS]
    assert after == pytest.approx(plain["accuracies"][-1], abs=0.025)
    assert after > plain["accuracies"][0] + 0.5


def test_deployed_docofl_sends_at_most_a_fifth(deployment: Outcome) -> None:
    plain, ours = deployment.rows["fedavg"], deployment.rows["docofl"]
    assert ours["bytes"] / ROUNDS_WITH_KILL <= plain["bytes"] / DEPLOYED_ROUNDS / 5
    assert total(ours, "anchor-bytes") > 0


def test_training_goes_on_after_a_node_was_killed(deployment: Outcome) -> None:
    ours = deployment.rows["docofl"]
    killed_after = ours["killed_after"]
    assert killed_after < ROUNDS_WITH_KILL
    accepted = [metrics["docofl-accepted"] for metrics in ours["metrics"]]
    assert len(accepted) == ROUNDS_WITH_KILL
    assert accepted[:killed_after] == [2] * killed_after
    assert min(accepted) >= 1
    assert accepted[-1] == 2  # the node is back, under a new id and with an empty state
    assert accepted.count(1) <= 2
    assert total(ours, "missing") + total(ours, "accepted") == total(ours, "asked")
    assert ours["accuracies"][-1] > ours["accuracies"][DEPLOYED_ROUNDS] - 0.02


def test_training_goes_on_while_a_node_is_frozen(deployment: Outcome) -> None:
    silent = deployment.rows["silent"]
    accepted = [metrics["docofl-accepted"] for metrics in silent["metrics"]]
    assert len(accepted) == ROUNDS_WITH_STOP
    assert accepted[:STOPPED_AFTER] == [2] * STOPPED_AFTER
    assert min(accepted) == 1
    assert silent["frozen_seconds"] < 200  # of the 300 that a round may take
    assert silent["accuracies"][-1] > silent["accuracies"][0] + 0.5


# --- the example ---------------------------------------------------------------------------------


def test_the_example_app_compares_both(outcomes: dict[str, Outcome]) -> None:
    plain, ours = (outcomes["example"].rows[name] for name in ("fedavg", "docofl"))
    assert plain["accuracy"] > 0.9
    assert ours["accuracy"] == pytest.approx(plain["accuracy"], abs=0.03)
    assert ours["megabytes"] < plain["megabytes"] / 5
    assert outcomes["example"].log.count("MB sent") == 2


def test_the_readme_of_the_example_is_right(outcomes: dict[str, Outcome]) -> None:
    log = outcomes["readme"].log
    rows = [line.split() for line in log.splitlines() if "MB sent" in line]
    assert [row[0] for row in rows] == ["fedavg", "docofl", "docofl"]
    assert float(rows[1][4 - 1]) < float(rows[0][4 - 1]) / 5
    assert outcomes["readme"].rows["processes"]["count"] > 0  # Flower leaves a SuperLink behind


# --- the sandbox ---------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_engine_that_cannot_start_leaves_nothing(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(simulation=False)
    seen: list[int] = []

    def interrupted(_port: int, process: subprocess.Popen[bytes]) -> None:
        seen.extend([process.pid, *engine.processes()])
        raise error

    monkeypatch.setattr(flower_demo, "wait_for_port", interrupted)
    with pytest.raises(error), engine:
        pytest.fail("it has not started")
    assert seen[0] in seen[1:]
    assert engine.processes() == []
    assert not engine.folder.exists()


def test_an_engine_without_flower_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(simulation=False)
    monkeypatch.setattr("sysconfig.get_path", lambda _name: "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FileNotFoundError), engine:
        pytest.fail("it has not started")
    assert not engine.folder.exists()
