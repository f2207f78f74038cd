"""The layers of the project hold: who may include and import what.

Each rule is a function from sources to breaches. The first tests run the rules on this repository,
the others on made-up sources that break them, one breach at a time.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "docofl_codec"

# Paths from the repository's root, with their text.
Sources = Mapping[str, str]
Rule = Callable[[Sources], list[str]]

CPP_SUFFIXES = (".h", ".cpp", ".inl")
CPP_FOLDERS = ("cpp", "bindings")
PYTHON_FOLDERS = ("src", "tests", "benchmarks", "examples")

# Modules of the package that may know the extension.
CODEC_LAYER = ("__init__", "_buffers", "codec", "ecuq", "eden", "frame")
CODEC_PACKAGES = ("baselines",)
# Optional dependencies: the codec layer recognises their objects and never imports them.
FRAMEWORKS = ("flwr", "jax", "ml_dtypes", "numcodecs", "tensorflow", "torch")
PICKLES = ("cPickle", "cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve")
# All that kernel files may include: no templates and no inline functions with external linkage.
KERNEL_HEADERS = ("cstddef", "cstdint", "immintrin.h", "string.h")


# --- sources -----------------------------------------------------------------------------------


def read_sources(root: Path, folders: Iterable[str], suffixes: tuple[str, ...]) -> dict[str, str]:
    """Read all files with the suffixes below the folders."""
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for folder in folders
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in suffixes and path.is_file()
    }


@dataclass(frozen=True)
class Include:
    """An include directive."""

    line: int
    name: str
    quoted: bool


INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"\n]+)[>\"]", re.MULTILINE)


def includes(text: str) -> Iterator[Include]:
    """Find the include directives of a C++ source."""
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Include(line, match.group(2), match.group(1) == '"')


def without_comments(text: str) -> str:
    """Blank the comments and string literals of a C++ source; lines stay where they are."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
    return re.sub(pattern, lambda m: "\n" * m.group().count("\n"), text, flags=re.DOTALL)


@dataclass(frozen=True)
class Import:
    """A module that another one imports."""

    line: int
    module: str
    for_typing: bool


def module_name(path: str) -> str:
    """Return the dotted name of a file of the package."""
    parts = PurePosixPath(path).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(node: ast.expr) -> bool:
    """Tell whether a condition is TYPE_CHECKING."""
    return (isinstance(node, ast.Name) and node.id == "TYPE_CHECKING") or (
        isinstance(node, ast.Attribute) and node.attr == "TYPE_CHECKING"
    )


def imports(path: str, text: str) -> list[Import]:
    """Find what a Python file imports, anywhere in it, by absolute name.

    ``from a import b`` counts as an import of ``a`` and of ``a.b``, as b may be a module.
    """
    found: list[Import] = []
    package = module_name(path).split(".")
    if not path.endswith("/__init__.py"):
        package = package[:-1]

    def visit(node: ast.AST, for_typing: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(node.lineno, alias.name, for_typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level > 0:
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            found.append(Import(node.lineno, base, for_typing))
            found.extend(
                Import(node.lineno, f"{base}.{alias.name}", for_typing)
                for alias in node.names
                if alias.name != "*"
            )
        elif isinstance(node, ast.Call) and is_dynamic_import(node):
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                found.append(Import(node.lineno, name.value, for_typing))
        if isinstance(node, ast.If) and is_type_checking(node.test):
            for statement in node.body:
                visit(statement, True)
            for statement in node.orelse:
                visit(statement, for_typing)
            return
        for child in ast.iter_child_nodes(node):
            visit(child, for_typing)

    visit(ast.parse(text, path), False)
    return found


def is_dynamic_import(node: ast.Call) -> bool:
    """Tell whether a call is importlib.import_module(…) or __import__(…)."""
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__")


def is_below(module: str, *parents: str) -> bool:
    """Tell whether a module is one of the parents or inside one."""
    return any(module == parent or module.startswith(parent + ".") for parent in parents)


# --- rules for C++ -----------------------------------------------------------------------------


def core_knows_no_python(sources: Sources) -> list[str]:
    """cpp/ includes neither pybind11 nor Python."""
    return [
        f"{path}:{include.line}: includes {include.name}"
        for path, text in sources.items()
        if path.startswith("cpp/")
        for include in includes(text)
        if re.match(r"(pybind11/|nanobind/|numpy/|Python\.h$)", include.name)
    ]


def bindings_leave_arithmetic_to_the_core(sources: Sources) -> list[str]:
    """bindings/ includes public headers and those of common/, never the inside of a codec."""
    return [
        f"{path}:{include.line}: includes {include.name}"
        for path, text in sources.items()
        if path.startswith("bindings/")
        for include in includes(text)
        if include.name.split("/")[0]
        in ("ecuq", "eden", "entropy", "frame", "kernels", "baselines")
    ]


def public_headers_stand_alone(sources: Sources) -> list[str]:
    """The headers of cpp/include/ include the standard library and each other alone."""
    return [
        f"{path}:{include.line}: includes {include.name}"
        for path, text in sources.items()
        if path.startswith("cpp/include/")
        for include in includes(text)
        if include.quoted and not include.name.startswith("docofl/")
    ]


def only_parallel_knows_openmp(sources: Sources) -> list[str]:
    """OpenMP is mentioned in cpp/src/common/parallel.cpp alone (comments aside)."""
    pattern = re.compile(r"\b(omp_\w+|_OPENMP)\b|#\s*pragma\s+omp\b|#\s*include\s*<omp\.h>")
    return [
        f"{path}:{number}: {line.strip()}"
        for path, text in sources.items()
        if path != "cpp/src/common/parallel.cpp"
        for number, line in enumerate(without_comments(text).splitlines(), 1)
        if pattern.search(line)
    ]


def kernels_have_no_shared_symbols(sources: Sources) -> list[str]:
    """Files that are compiled per ISA level use no standard templates.

    Their symbols would be weak, and the linker could keep the one of the wrong level.
    """
    breaches = []
    for path, text in sources.items():
        folder, _, name = path.rpartition("/")
        if folder != "cpp/src/kernels" or name == "dispatch.cpp":
            continue
        for include in includes(text):
            known = include.name in KERNEL_HEADERS or (
                include.quoted and include.name.startswith("kernels/")
            )
            if not known:
                breaches.append(f"{path}:{include.line}: includes {include.name}")
        types = re.compile(r"\bstd::(?!u?int\d+_t\b|size_t\b|uintptr_t\b|ptrdiff_t\b)\w+")
        for number, line in enumerate(without_comments(text).splitlines(), 1):
            breaches.extend(f"{path}:{number}: uses {match}" for match in types.findall(line))
    return breaches


def file_names_are_unique(sources: Sources) -> list[str]:
    """No two C++ files share a name, so that a name says which file is meant."""
    names = Counter(PurePosixPath(path).name for path in sources)
    return [path for path in sources if names[PurePosixPath(path).name] > 1]


def includes_resolve(sources: Sources) -> list[str]:
    """Every #include "…" names a file of the repository, by a path that the build knows."""
    roots = ("cpp/include", "cpp/src")
    return [
        f"{path}:{include.line}: includes {include.name}, which is not there"
        for path, text in sources.items()
        for include in includes(text)
        if include.quoted
        and not any(
            f"{root}/{include.name}" in sources for root in (*roots, path.rpartition("/")[0])
        )
    ]


# --- rules for Python --------------------------------------------------------------------------


def package_imports(sources: Sources) -> Iterator[tuple[str, str, Import]]:
    """Yield (path, module, import) for all files of the package."""
    for path, text in sources.items():
        if path.startswith(f"src/{PACKAGE}/"):
            for found in imports(path, text):
                yield path, module_name(path), found


def reference_needs_numpy_alone(sources: Sources) -> list[str]:
    """reference/ imports NumPy, the standard library and itself."""
    allowed = (f"{PACKAGE}.reference", "numpy", *sys.stdlib_module_names)
    return [
        f"{path}:{found.line}: imports {found.module}"
        for path, module, found in package_imports(sources)
        if is_below(module, f"{PACKAGE}.reference") and not is_below(found.module, *allowed)
    ]


def codec_layer_imports_no_framework(sources: Sources) -> list[str]:
    """Only fl/, figures/, integrations/ and files/torch_files.py import torch and its like.

    Annotations aside.
    """
    free = tuple(
        f"{PACKAGE}.{name}" for name in ("fl", "figures", "integrations", "files.torch_files")
    )
    return [
        f"{path}:{found.line}: imports {found.module}"
        for path, module, found in package_imports(sources)
        if not is_below(module, *free)
        and is_below(found.module, *FRAMEWORKS)
        and not found.for_typing
    ]


def framework_knows_the_protocol_alone(sources: Sources) -> list[str]:
    """framework/ imports neither the extension nor torch nor Flower, not even for annotations."""
    forbidden = (f"{PACKAGE}._core", *FRAMEWORKS)
    return [
        f"{path}:{found.line}: imports {found.module}"
        for path, module, found in package_imports(sources)
        if is_below(module, f"{PACKAGE}.framework") and is_below(found.module, *forbidden)
    ]


def nobody_imports_integrations(sources: Sources) -> list[str]:
    """integrations/ is for users, and nothing of the package needs it."""
    inside = f"{PACKAGE}.integrations"
    return [
        f"{path}:{found.line}: imports {found.module}"
        for path, module, found in package_imports(sources)
        if is_below(found.module, inside) and not is_below(module, inside)
    ]


def only_the_codec_layer_knows_the_core(sources: Sources) -> list[str]:
    """_core is imported by the modules of the codec layer and by the baselines alone."""
    layer = {PACKAGE if name == "__init__" else f"{PACKAGE}.{name}" for name in CODEC_LAYER}
    return [
        f"{path}:{found.line}: imports {found.module}"
        for path, module, found in package_imports(sources)
        if is_below(found.module, f"{PACKAGE}._core")
        and module not in layer
        and not is_below(module, *(f"{PACKAGE}.{name}" for name in CODEC_PACKAGES))
    ]


def nobody_pickles(sources: Sources) -> list[str]:
    """No pickle anywhere, neither by import nor through NumPy or torch."""
    breaches: list[str] = []
    for path, text in sources.items():
        breaches.extend(
            f"{path}:{found.line}: imports {found.module}"
            for found in imports(path, text)
            if is_below(found.module, *PICKLES)
        )
        for node in ast.walk(ast.parse(text, path)):
            if not isinstance(node, ast.Call):
                continue
            function = ast.unparse(node.func)
            options = {
                keyword.arg: keyword.value.value
                for keyword in node.keywords
                if isinstance(keyword.value, ast.Constant)
            }
            if options.get("allow_pickle", False):
                breaches.append(f"{path}:{node.lineno}: {function} with allow_pickle")
            if function == "torch.load" and options.get("weights_only") is not True:
                breaches.append(f"{path}:{node.lineno}: torch.load without weights_only")
    return breaches


CPP_RULES: list[Rule] = [
    core_knows_no_python,
    bindings_leave_arithmetic_to_the_core,
    public_headers_stand_alone,
    only_parallel_knows_openmp,
    kernels_have_no_shared_symbols,
    file_names_are_unique,
    includes_resolve,
]
PYTHON_RULES: list[Rule] = [
    reference_needs_numpy_alone,
    codec_layer_imports_no_framework,
    framework_knows_the_protocol_alone,
    nobody_imports_integrations,
    only_the_codec_layer_knows_the_core,
    nobody_pickles,
]


# --- the repository ----------------------------------------------------------------------------


def test_sources_are_found() -> None:
    cpp = read_sources(ROOT, CPP_FOLDERS, CPP_SUFFIXES)
    python = read_sources(ROOT, PYTHON_FOLDERS, (".py",))
    assert "cpp/src/common/parallel.cpp" in cpp
    assert "bindings/module.cpp" in cpp
    assert f"src/{PACKAGE}/__init__.py" in python
    assert "tests/test_architecture.py" in python


@pytest.mark.parametrize("rule", CPP_RULES, ids=lambda rule: rule.__name__)
def test_cpp(rule: Rule) -> None:
    assert rule(read_sources(ROOT, CPP_FOLDERS, CPP_SUFFIXES)) == []


@pytest.mark.parametrize("rule", PYTHON_RULES, ids=lambda rule: rule.__name__)
def test_python(rule: Rule) -> None:
    assert rule(read_sources(ROOT, PYTHON_FOLDERS, (".py",))) == []


# --- what pages say about tests ----------------------------------------------------------------


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/design/robustness.md"])
def test_tests_that_are_cited_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    cited = set(re.findall(r"`((?:cpp/)?tests/[^`]*)`", text))
    assert len(cited) > 10
    assert [path for path in cited if not (ROOT / path).is_file()] == []


def test_every_promise_cites_a_test() -> None:
    rows = [
        line
        for line in (ROOT / "SECURITY.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ][2:]
    assert len(rows) > 8
    assert [row for row in rows if "tests/" not in row.split("|")[2]] == []


# --- the rules on made-up sources --------------------------------------------------------------

GOOD_CPP = {
    "cpp/include/docofl/a.h": "#include <vector>\n",
    "cpp/src/common/parallel.cpp": "#ifdef _OPENMP\n#include <omp.h>\n#endif\n",
    "cpp/src/kernels/kernels.h": "#include <cstddef>\nusing N = std::size_t;\n",
    "cpp/src/kernels/kernels.inl": '#include <string.h>\n#include "kernels/kernels.h"\n',
    "cpp/src/kernels/dispatch.cpp": "#include <vector>\n",
    "cpp/src/ecuq/b.cpp": '// _OPENMP in a comment\n#include "docofl/a.h"\n',
    "bindings/register.h": '#include <pybind11/pybind11.h>\n#include "docofl/a.h"\n',
    "bindings/module.cpp": '#include "register.h"\n',
}

GOOD_PYTHON = {
    f"src/{PACKAGE}/__init__.py": "from docofl_codec._core import build_info\n",
    f"src/{PACKAGE}/frame.py": "from . import _core\n",
    f"src/{PACKAGE}/_buffers.py": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n"
    ),
    f"src/{PACKAGE}/reference/__init__.py": "from .ecuq import quantize\n",
    f"src/{PACKAGE}/reference/ecuq.py": "import math\nimport numpy as np\nfrom . import bits\n",
    f"src/{PACKAGE}/framework/server.py": "from docofl_codec.codec import Codec\n",
    f"src/{PACKAGE}/integrations/ddp.py": "import torch\nfrom docofl_codec import ecuq\n",
    f"src/{PACKAGE}/fl/loop.py": "import torch\n",
    "tests/test_a.py": "import torch\nfrom docofl_codec.integrations import ddp\n",
}


@pytest.mark.parametrize("rule", CPP_RULES, ids=lambda rule: rule.__name__)
def test_good_cpp_passes(rule: Rule) -> None:
    assert rule(GOOD_CPP) == []


@pytest.mark.parametrize("rule", PYTHON_RULES, ids=lambda rule: rule.__name__)
def test_good_python_passes(rule: Rule) -> None:
    assert rule(GOOD_PYTHON) == []


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (core_knows_no_python, "cpp/src/ecuq/b.cpp", "# include  <pybind11/numpy.h>\n"),
        (core_knows_no_python, "cpp/include/docofl/a.h", "#include <Python.h>\n"),
        (core_knows_no_python, "cpp/tests/t.cpp", '#include "Python.h"\n'),
        (
            bindings_leave_arithmetic_to_the_core,
            "bindings/module.cpp",
            '#include "kernels/kernels.h"\n',
        ),
        (bindings_leave_arithmetic_to_the_core, "bindings/x.cpp", '#include "ecuq/levels.h"\n'),
        (bindings_leave_arithmetic_to_the_core, "bindings/x.cpp", '#include "entropy/huffman.h"\n'),
        (public_headers_stand_alone, "cpp/include/docofl/a.h", '#include "common/parallel.h"\n'),
        (only_parallel_knows_openmp, "cpp/src/ecuq/b.cpp", "#pragma omp parallel for\n"),
        (only_parallel_knows_openmp, "cpp/src/ecuq/b.cpp", "int n = omp_get_max_threads();\n"),
        (only_parallel_knows_openmp, "cpp/src/common/parallel.h", "#ifdef _OPENMP\n#endif\n"),
        (only_parallel_knows_openmp, "bindings/module.cpp", "#include <omp.h>\n"),
        (kernels_have_no_shared_symbols, "cpp/src/kernels/kernels.inl", "#include <algorithm>\n"),
        (kernels_have_no_shared_symbols, "cpp/src/kernels/kernels.h", "#include <vector>\n"),
        (
            kernels_have_no_shared_symbols,
            "cpp/src/kernels/kernels.inl",
            '#include "common/endian.h"\n',
        ),
        (kernels_have_no_shared_symbols, "cpp/src/kernels/kernels.inl", "auto x = std::min(a, b);"),
        (file_names_are_unique, "cpp/src/eden/b.cpp", ""),
        (includes_resolve, "cpp/src/ecuq/b.cpp", '#include "ecuq/gone.h"\n'),
        (includes_resolve, "cpp/src/ecuq/b.cpp", '#include "kernels.h"\n'),
    ],
)
def test_a_breach_in_cpp_is_found(rule: Rule, path: str, text: str) -> None:
    breaches = rule({**GOOD_CPP, path: text})
    assert any(breach.startswith(path) for breach in breaches)


@pytest.mark.parametrize(
    ("rule", "module", "text"),
    [
        (reference_needs_numpy_alone, "reference/ecuq", "from docofl_codec import errors\n"),
        (reference_needs_numpy_alone, "reference/ecuq", "from .. import _core\n"),
        (reference_needs_numpy_alone, "reference/ecuq", "from ..errors import CodecError\n"),
        (reference_needs_numpy_alone, "reference/ecuq", "import scipy.stats\n"),
        (codec_layer_imports_no_framework, "ecuq", "import torch\n"),
        (codec_layer_imports_no_framework, "frame", "def f():\n    from torch import nn\n"),
        (codec_layer_imports_no_framework, "codec", "try:\n    import flwr\nexcept E:\n    pass\n"),
        (codec_layer_imports_no_framework, "codec", "import_module('torch')\n"),
        (
            codec_layer_imports_no_framework,
            "codec",
            "if TYPE_CHECKING:\n    pass\nelse:\n    import torch\n",
        ),
        (codec_layer_imports_no_framework, "baselines/qsgd", "import torch.nn\n"),
        (framework_knows_the_protocol_alone, "framework/server", "from .. import _core\n"),
        (framework_knows_the_protocol_alone, "framework/__init__", "import torch\n"),
        (
            framework_knows_the_protocol_alone,
            "framework/client",
            "if TYPE_CHECKING:\n    import flwr\n",
        ),
        (nobody_imports_integrations, "cli", "from docofl_codec.integrations import ddp\n"),
        (nobody_imports_integrations, "fl/loop", "from .. import integrations\n"),
        (only_the_codec_layer_knows_the_core, "errors", "from docofl_codec import _core\n"),
        (only_the_codec_layer_knows_the_core, "state_dict", "import docofl_codec._core as c\n"),
        (only_the_codec_layer_knows_the_core, "fl/loop", "from .._core import set_isa\n"),
        (nobody_pickles, "fl/checkpoint", "import pickle\n"),
        (nobody_pickles, "fl/checkpoint", "def f():\n    from joblib import load\n"),
        (nobody_pickles, "fl/checkpoint", "np.load(path, allow_pickle=True)\n"),
        (nobody_pickles, "fl/checkpoint", "torch.load(path)\n"),
    ],
)
def test_a_breach_in_python_is_found(rule: Rule, module: str, text: str) -> None:
    path = f"src/{PACKAGE}/{module}.py"
    breaches = rule({**GOOD_PYTHON, path: text})
    assert any(breach.startswith(path) for breach in breaches)


def test_relative_imports_are_resolved() -> None:
    path = f"src/{PACKAGE}/framework/server.py"
    found = imports(path, "from . import a\nfrom ..codec import Codec\nfrom ... import b\n")
    assert [one.module for one in found] == [
        f"{PACKAGE}.framework",
        f"{PACKAGE}.framework.a",
        f"{PACKAGE}.codec",
        f"{PACKAGE}.codec.Codec",
        "",
        ".b",
    ]
