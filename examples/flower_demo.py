"""Flower on this machine alone: a SuperLink on loopback, and everything that it starts is ended.

``python -m examples.flower_demo`` runs the app in examples/flower on simulated nodes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

APP = Path(__file__).resolve().parent / "flower"
NUM_NODES = 8
MARK = "DOCOFL_FLOWER"  # in the environment of all processes that belong to a SuperLink

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_WAIT_POLICY": "passive",
}


class Sandbox:
    """A folder for Flower's files and processes, for a ``with`` statement that ends them all.

    Attributes
    ----------
    folder : Path
        Deleted in the end.
    """

    folder: Path

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        self._started: list[subprocess.Popen[bytes]] = []
        self._environment: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="fl"))  # Ray's sockets need a short path
        try:
            self._set_up()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for sent in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + 10
            for pid in self.processes():
                send_signal(pid, sent)
            while self.processes() and time.monotonic() < deadline:
                time.sleep(0.1)
        for process in self._started:
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _set_up(self) -> None:
        home = self.folder / "home"
        home.mkdir()
        scripts = sysconfig.get_path("scripts")
        self._environment = {
            **os.environ,
            **QUIET,
            MARK: self._mark,
            "FLWR_HOME": str(home),
            "RAY_TMPDIR": str(self.folder),
            "PATH": os.pathsep.join([scripts, os.environ.get("PATH", "")]),
        }

    def copy(self, app: Path) -> Path:
        """Copy an app into the folder."""
        copy = self.folder / f"app{uuid.uuid4().hex[:6]}"
        shutil.copytree(app, copy, ignore=shutil.ignore_patterns("__pycache__"))
        return copy

    def start(
        self, command: list[str], log: str, folder: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process; its output goes to a file."""
        with (self.folder / log).open("ab") as file:
            process = subprocess.Popen(
                command,
                cwd=folder or self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self._started.append(process)
        return process

    def log(self, name: str = "run.log") -> str:
        """Return what a process has printed."""
        return (self.folder / name).read_text(encoding="utf-8", errors="replace")

    def processes(self) -> list[int]:
        """Return the ids of all processes that were started here, whoever has."""
        mark = f"{MARK}={self._mark}".encode()
        # The environment of a process that has just been started is not there yet.
        found = [process.pid for process in self._started if process.poll() is None]
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) not in (os.getpid(), *found):
                try:
                    environment = (entry / "environ").read_bytes()
                except OSError:
                    continue
                if mark in environment.split(b"\0"):
                    found.append(int(entry.name))
        return found


class Engine(Sandbox):
    """A SuperLink and its nodes.

    Parameters
    ----------
    simulation : bool
        Whether nodes are simulated (by Ray) or started by :meth:`start_node`.
    """

    def __init__(self, *, simulation: bool) -> None:
        super().__init__()
        self._simulation = simulation
        self._address = ""

    def _set_up(self) -> None:
        super()._set_up()
        host, port = "127.0.0.1", str(free_port())
        self._address = f"{host}:{port}"
        config = f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{self._address}"\n'
        path = self.folder / "home" / "config.toml"
        path.write_text(config + "insecure = true\n", encoding="utf-8")
        command = ["flower-superlink", "--insecure", "--host", host, "--port", port]
        command += ["--control-api-address", f"{host}:{free_port()}"]
        command += ["--fleet-api-address", f"{host}:{free_port()}"]
        command += ["--disable-runtime-dependency-installation"]
        command += ["--simulation"] if self._simulation else []
        wait_for_port(int(port), self.start(command, "superlink.log"))

    def start_node(self, partition: int, num_partitions: int) -> subprocess.Popen[bytes]:
        """Start a SuperNode."""
        command = ["flower-supernode", "--insecure", "--superlink", self._address]
        command += ["--port", str(free_port())]
        node_config = f"partition-id={partition} num-partitions={num_partitions}"
        command += ["--node-config", node_config]
        return self.start(command, f"node{partition}.log")

    def end_node(self, node: subprocess.Popen[bytes]) -> None:
        """Kill a SuperNode and all that it has started, as a power cut would."""
        self.signal_node(node, signal.SIGKILL)
        node.wait()

    def signal_node(self, node: subprocess.Popen[bytes], sent: signal.Signals) -> None:
        """Signal a SuperNode and all that it has started."""
        for pid in [node.pid, *descendants(node.pid)]:
            send_signal(pid, sent)

    def run(self, app: Path, **options: str) -> subprocess.Popen[bytes]:
        """Start ``flwr run``; its output goes to ``run.log`` and is streamed until it ends.

        Options are those of ``flwr run``, ``run_config="lr=0.1"`` say.
        """
        command = ["flwr", "run", str(self.copy(app)), "here", "--stream"]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", value]
        return self.start(command, "run.log")


def free_port() -> int:
    """Return a port on loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def wait_for_port(port: int, process: subprocess.Popen[bytes], timeout: float = 60) -> None:
    """Wait until somebody listens."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"port {port}: found nobody listening, expected a SuperLink")


def send_signal(pid: int, sent: signal.Signals) -> None:
    """Signal a process, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sent)


def descendants(pid: int) -> list[int]:
    """Return the ids of all processes below one."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found = []
    waiting = [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def main() -> int:
    """Run the app with FedAvg and with DoCoFL; print what both reached and sent."""
    with Engine(simulation=True) as engine:
        print(f"Flower with {NUM_NODES} simulated nodes: FedAvg, then DoCoFL …", flush=True)
        run = engine.run(
            APP, federation_config=f"num-supernodes={NUM_NODES} client-resources-num-cpus=1"
        )
        status = run.wait()
        lines = engine.log().splitlines()
        rows = [line for line in lines if "MB sent" in line]
        print("\n".join(rows if rows else lines[-40:]))
    return status if rows else 1


if __name__ == "__main__":
    sys.exit(main())
