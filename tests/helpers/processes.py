"""Python in a process of its own, for what must not happen in the one that runs the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import docofl_codec

PACKAGE_PARENT = Path(docofl_codec.__file__).resolve().parents[1]
REPOSITORY = Path(__file__).resolve().parents[2]

HAS_ASAN = "asan" in os.environ.get("LD_PRELOAD", "")

# Sanitizers reserve more address space than any limit would leave them.
can_limit_memory = pytest.mark.skipif(
    sys.platform != "linux" or HAS_ASAN,
    reason="the address space cannot be limited here",
)

# A child whose parent had a thread in ASan's allocator waits for that thread, which it has not.
can_fork_among_threads = pytest.mark.skipif(HAS_ASAN, reason="ASan's allocator does not fork")

# Defines limit_memory(extra): address space beyond what is in use now.
LIMIT_MEMORY = """
import resource

def limit_memory(extra_bytes):
    with open("/proc/self/statm") as statm:
        in_use = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + extra_bytes, in_use + extra_bytes))
"""

# `docofl` as a command for Popen, and then its arguments. Where the tests run in the background,
# Ctrl-C is ignored, and children would inherit that.
INTERRUPTIBLE_DOCOFL = [
    sys.executable,
    "-c",
    "import signal, sys\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from docofl_codec.cli import main\n"
    "sys.exit(main())",
]


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which the package under test and `tests` can be imported."""
    paths = [str(PACKAGE_PARENT), str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONFAULTHANDLER": "1",
        **(extra or {}),
    }


def run_python(code: str, *, timeout: float = 60, env: Mapping[str, str] | None = None) -> str:
    """Run code to its end and return what it printed; fail on a crash, an error or a hang."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=child_environment(env),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr}"
    return done.stdout
