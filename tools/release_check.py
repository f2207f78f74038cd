"""Check what would be released: `make release-check`.

1. Source distribution, and the wheel from it, as a user's pip builds it.
2. `auditwheel`: the wheel gets its manylinux tag, and libgomp is put into it.
3. The wheel holds the package, its licence and libgomp, and needs nothing else from the system.
4. No code outside the kernels of x86-64-v3 has instructions of AVX.
5. cibuildwheel reads its configuration in pyproject.toml.
6. The wheel, in an environment of its own, passes the tests, from a copy of them that is far from
   the sources; the golden tests also with the baseline kernels, and on an emulated CPU without AVX
   where qemu-user is there.

Environments and wheels are left in build/release-check.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build/release-check"
# What tests read beside the package; neither sources nor build.
COPIED = ("tests", "docs", "examples", "benchmarks", "tools", "pyproject.toml", "*.md", "LICENSE")
# Needs the sources.
NOT_COPIED = ("tests/test_architecture.py", "tests/integration")
NOT_IN_SOURCES = re.compile(r"build/|\.venv(-bench)?/|.*\.(so|o|a|pyc)$")
MAX_SOURCE_BYTES = 5_000_000
ALLOWED_IN_WHEEL = re.compile(
    r"docofl_codec/([\w/]+\.pyi?|py\.typed|_core\.[\w-]+\.so)"
    r"|docofl_codec\.libs/libgomp-[\w.-]+"
    r"|docofl_codec-[\d.]+\.dist-info/.+"
)
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libstdc++.so.6", "libgcc_s.so.1"}
LOADER = re.compile(r"ld-linux.*")
AVX_REGISTER = re.compile(r"%[yz]mm\d")
CPU_WITHOUT_AVX = "Nehalem"


def main() -> None:
    """Do all steps; stop at the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tests", nargs="*", default=["tests"], help="what to run of the tests")
    tests = parser.parse_args().tests
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    wheel = repaired(built())
    check_content(wheel)
    check_libraries(wheel)
    check_instructions()
    run([tool("cibuildwheel"), "--platform", "linux", "--print-build-identifiers", ROOT])
    check_tests(wheel, tests)
    print(f"release-check: {wheel.name} is fit for release")


def built() -> Path:
    """Return the wheel that is built from the source distribution."""
    run([sys.executable, "-m", "build", "--outdir", WORK / "dist", ROOT])
    (source,) = (WORK / "dist").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    stray = [name for name in names if NOT_IN_SOURCES.match(name)]
    if stray or source.stat().st_size > MAX_SOURCE_BYTES:
        sys.exit(f"{source.name}: {source.stat().st_size} bytes, found {', '.join(stray[:9])}")
    print(f"{source.name}: {source.stat().st_size} bytes, {len(names)} files")
    (wheel,) = (WORK / "dist").glob("*.whl")
    return wheel


def repaired(wheel: Path) -> Path:
    """Return the wheel with a manylinux tag and the libraries that this promises."""
    run([tool("auditwheel"), "repair", "--wheel-dir", WORK / "wheelhouse", wheel])
    (result,) = (WORK / "wheelhouse").glob("*.whl")
    shown = output([tool("auditwheel"), "show", result])
    print(shown)
    if "manylinux_" not in result.name or "manylinux_" not in shown:
        sys.exit(f"{result.name}: found no manylinux tag")
    return result


def check_content(wheel: Path) -> None:
    """Fail where the wheel holds what nobody imports."""
    stray = [name for name in zipfile.ZipFile(wheel).namelist() if not expected(name)]
    if stray:
        sys.exit(f"{wheel.name}: found {', '.join(stray)}")


def expected(name: str) -> bool:
    """Tell whether a file belongs into the wheel."""
    return name.endswith("/") or ALLOWED_IN_WHEEL.fullmatch(name) is not None


def check_libraries(wheel: Path) -> None:
    """Fail where the extension needs a library that is neither in the wheel nor everywhere."""
    folder = WORK / "unpacked"
    zipfile.ZipFile(wheel).extractall(folder)
    inside = {path.name for path in folder.glob("docofl_codec.libs/*")}
    for library in folder.rglob("*.so*"):
        dynamic = output(["objdump", "-p", library])
        for needed in re.findall(r"NEEDED\s+(\S+)", dynamic):
            if needed not in SYSTEM_LIBRARIES | inside and not LOADER.fullmatch(needed):
                sys.exit(f"{library.name}: needs {needed}")
            print(f"{library.name}: needs {needed}")


def check_instructions() -> None:
    """Fail where an object file but that of the v3 kernels has code that needs AVX.

    The extension itself is stripped; the library that it is linked from has names.
    """
    if os.uname().machine != "x86_64":
        print("not x86-64: one set of kernels, no instructions to look for")
        return
    build = WORK / "core"
    ninja = f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"
    run([tool("cmake"), "-S", ROOT, "-B", build, "-G", "Ninja", ninja])
    run([tool("cmake"), "--build", build, "--target", "docofl_core"])
    count: dict[str, int] = {}
    name = ""
    for line in output(["objdump", "-d", build / "cpp/libdocofl_core.a"]).splitlines():
        if line.endswith("file format elf64-x86-64"):
            name = line.partition(":")[0]
            count[name] = 0
        elif AVX_REGISTER.search(line):
            count[name] += 1
    if count.pop("kernels_v3.cpp.o") == 0:
        sys.exit("kernels_v3.cpp.o: found no instructions of AVX")
    if any(count.values()):
        sys.exit(f"instructions of AVX: found {count}")
    print(f"{len(count)} object files beside kernels_v3.cpp.o have no instructions of AVX")


def check_tests(wheel: Path, tests: Sequence[str]) -> None:
    """Install the wheel and run the tests against it."""
    environment = WORK / "venv"
    run([sys.executable, "-m", "venv", environment])
    python = str(environment / "bin/python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "-c", str(ROOT / "constraints.txt"), f"{wheel}[fl,test]"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in (path for part in COPIED for path in ROOT.glob(part)):
            copy = shutil.copytree if source.is_dir() else shutil.copy2
            copy(source, folder / source.name)
        for part in NOT_COPIED:
            path = folder / part
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        where = [python, "-c", "import docofl_codec; print(docofl_codec.__file__)"]
        if not Path(output(where, cwd=folder).strip()).is_relative_to(environment):
            sys.exit("the tests would not import the wheel")
        pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        passive = {"OMP_WAIT_POLICY": "passive"}
        golden = [*pytest, "tests/golden", "tests/unit/test_build_info.py"]
        baseline = {**passive, "DOCOFL_CODEC_ISA": "baseline"}
        run(golden, cwd=folder, env=baseline)
        emulator = shutil.which("qemu-x86_64")
        if emulator is not None:
            frames = [*pytest, "tests/golden/test_golden_frames.py", "-k", "core"]
            best = ["tests/golden/test_golden_best.py", "tests/golden/test_golden_state_dict.py"]
            run([emulator, "-cpu", CPU_WITHOUT_AVX, *frames, *best], cwd=folder, env=passive)
        run([*pytest, *tests], cwd=folder, env=passive)


Argument = str | Path


def tool(name: str) -> str:
    """Return the path of a command of this environment."""
    path = shutil.which(name, path=str(Path(sys.executable).parent))
    if path is None:
        sys.exit(f"{name}: not installed; use make release-check")
    return path


def run(
    command: Sequence[Argument], *, cwd: Path = WORK, env: Mapping[str, str] | None = None
) -> None:
    """Run a command; stop where it fails."""
    print("+", *command, flush=True)
    if subprocess.run(command, cwd=cwd, env=clean(env), check=False).returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}")


def output(command: Sequence[Argument], *, cwd: Path = WORK) -> str:
    """Return what a command prints."""
    return subprocess.run(
        command, cwd=cwd, env=clean(), check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def clean(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this environment without what could lead to other packages; tools are found first."""
    tools = str(Path(sys.executable).parent)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PATH": f"{tools}{os.pathsep}{kept.get('PATH', '')}", **(extra or {})}


if __name__ == "__main__":
    main()
