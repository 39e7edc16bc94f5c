"""Who may import whom. Read off the source with ``ast``, so that a lazy import counts too."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("testbed", "devices", "aggregator")


def imports(text: str) -> Iterator[str]:
    """Every module named in an import, wherever it stands; of ``from a import b`` both a and a.b."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def below(module: str, *tops: str) -> bool:
    return any(module == top or module.startswith(f"{top}.") for top in tops)


def files(*packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


IMPORTS = {
    path.relative_to(ROOT).as_posix(): set(imports(path.read_text(encoding="utf-8"))) for path in files(*PACKAGES)
}


def test_imports_are_found_wherever_they_stand() -> None:
    text = """
import a.b, c as d
from e import f
from . import g
def lazy():
    if True:
        from h.i import j
"""
    assert set(imports(text)) == {"a.b", "c", "e", "e.f", ".", "..g", "h.i", "h.i.j"}


def test_every_package_is_looked_at() -> None:
    assert {name.partition("/")[0] for name in IMPORTS} == set(PACKAGES)


@pytest.mark.parametrize("file", IMPORTS)
def test_imports_are_absolute(file: str) -> None:
    assert not [module for module in IMPORTS[file] if module.startswith(".")]


@pytest.mark.parametrize(
    ("package", "others"),
    [("testbed", ("devices", "aggregator")), ("devices", ("aggregator",)), ("aggregator", ("devices",))],
)
def test_packages_import_only_downwards(package: str, others: tuple[str, ...]) -> None:
    wrong = {
        (file, module)
        for file, modules in IMPORTS.items()
        for module in modules
        if file.startswith(f"{package}/") and below(module, *others)
    }
    assert {file for file, _ in wrong} <= HEADS


HEADS = {"devices/cluster/head.py"}
"""A device that heads a cluster is a small aggregator, and has the parts of one."""


def test_nothing_that_runs_imports_the_tests() -> None:
    assert not [file for file, modules in IMPORTS.items() if any(below(module, "tests") for module in modules)]


STRATEGIES = [file for file in IMPORTS if file.startswith("aggregator/strategies/")]
FOR_STRATEGIES = (
    "aggregator.strategy", "aggregator.pacing", "aggregator.vectors", "aggregator.strategies.asafl.gradient_memory", "aggregator.strategies",
    "aggregator.strategies.eafl.clustering", "aggregator.strategies.eafl.two_stage",
    "testbed.wire.messages", "testbed.common.parameters", "numpy", "msgspec", *sys.stdlib_module_names,
)  # fmt: skip


@pytest.mark.parametrize("file", STRATEGIES)
def test_a_rule_sees_the_strategy_interface_and_numpy_only(file: str) -> None:
    assert not [module for module in IMPORTS[file] if not below(module, *FOR_STRATEGIES)]


@pytest.mark.parametrize("file", [file for file in STRATEGIES if not file.endswith("__init__.py")])
def test_a_rule_does_not_import_another(file: str) -> None:
    assert not [module for module in IMPORTS[file] if below(module, "aggregator.strategies")]


CLOCKS = ("calibration", "clock", "forking", "hostmeter", "live", "processes", "sweep/running", "watching")
"""Who looks at the host's own clock: time as an argument, waiting for processes, and measuring the host."""


DRAWN = ("dealing/heatmap", "papers/*", "report/drawing", "report/fleetlanes", "report/overtime", "traces/plotting")
"""Figures. They are imported when one is made, and not by whoever might want one."""


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("zmq", ["testbed/wire/sockets.py", "testbed/wire/authentication.py"]),
        ("msgpack", ["testbed/wire/codec.py"]),
        ("time", [f"testbed/{name}.py" for name in CLOCKS]),
        ("random", []),
        ("pickle", ["testbed/common/unpickle.py"]),
        ("tensorboard", ["testbed/runs/tensorboard.py"]),
        ("matplotlib", [f"testbed/{name}.py" for name in DRAWN]),
        ("sklearn", ["aggregator/strategies/eafl/clustering.py"]),
        ("jinja2", ["testbed/report/report_page.py", "testbed/compare/compare_page.py"]),
        (
            "torch",
            ["testbed/models/*", "testbed/tasks/*", "testbed/processes/template.py", "devices/compute/local_sgd.py"],
        ),
    ],
)
def test_a_module_stays_in_its_files(module: str, allowed: list[str]) -> None:
    users = [file for file, modules in IMPORTS.items() if any(below(name, module) for name in modules)]
    assert not [file for file in users if not any(fnmatch(file, pattern) for pattern in allowed)]
    # a rule about files that no longer use the module has outlived its reason
    assert all(any(fnmatch(file, pattern) for file in users) for pattern in allowed)


@pytest.mark.parametrize(
    "module",
    [
        "testbed.cli.main",
        "testbed.learning.tasks",
        "testbed.learning.models",
        "testbed.learning.splits",
        "aggregator.strategies",
    ],
)
def test_the_command_line_does_not_wait_for_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


PROGRAMS = {"eval", "exec", "compile", "__import__", "pickle.load", "pickle.loads", "torch.load", "allow_pickle=True"}
READERS_OF_PROGRAMS = ("marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml", "code", "runpy")


def said(text: str) -> set[str]:
    """Functions that are called by their name alone, attributes of names, and switches."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.keyword):
            found.add(f"{node.arg}={ast.unparse(node.value)}")
    return found


def test_calls_are_found() -> None:
    text = "def f():\n    return eval(pickle.load(x)) + np.load(file, allow_pickle=True)"
    assert said(text) == {"eval", "pickle.load", "np.load", "allow_pickle=True"}


@pytest.mark.parametrize("file", IMPORTS)
def test_nothing_runs_what_it_reads(file: str) -> None:
    """No message and no file is ever a program. (The Unpickler of ``testbed.common.unpickle`` can name numbers only.)"""
    assert not [module for module in IMPORTS[file] if below(module, *READERS_OF_PROGRAMS)]
    assert not said((ROOT / file).read_text(encoding="utf-8")) & PROGRAMS
