"""Which room (folder) may import which. Read off the source with ``ast``: lazy imports and names in strings count, too.

A room that needs more than its line allows is a sign that something lies in the wrong room: move that name down to
where both can reach it. Add a room to a line only if the arrow still points down (no cycle: see the test below).
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("testbed", "devices", "aggregator")
MOST_MODULES = 16

MAY_IMPORT = {
    # foundation: devices and aggregator stand on it
    "testbed": "testbed.api testbed.common",
    "testbed.common": "testbed.common.by_value testbed.common.finders testbed.common.terminal",
    "testbed.common.by_value": "",
    "testbed.common.finders": "",
    "testbed.common.terminal": "",
    "testbed.history.events": "testbed.common",
    "testbed.common.files": "testbed.common",
    "testbed.wire": "testbed.common testbed.history.events",
    "testbed.host": "testbed.common testbed.common.files testbed.common.finders",
    "testbed.host.memory": "testbed.common testbed.host",
    "testbed.host.quotas": "testbed.common",
    "testbed.traces": "testbed.common testbed.common.files",
    "testbed.traces.formats": "testbed.common testbed.common.files testbed.traces",
    "testbed.profile": "testbed.common testbed.history.events testbed.host testbed.traces testbed.wire",
    "testbed.emulation": "testbed.common testbed.profile testbed.wire",
    "testbed.history": "testbed.common testbed.common.files testbed.history.events",
    "testbed.learning": "testbed.common"
    " testbed.common.by_value testbed.learning.data testbed.learning.tasks testbed.profile",
    "testbed.learning.data": "testbed.common testbed.common.files testbed.learning.data.readers",
    "testbed.learning.data.own_files": "testbed.common testbed.common.files testbed.learning.data.readers",
    "testbed.learning.data.readers": "testbed.common testbed.common.files",
    "testbed.learning.flower": "testbed.common testbed.common.finders testbed.common.terminal testbed.learning.training"
    " testbed.wire",
    "testbed.learning.models": "",
    "testbed.learning.own_data": "testbed.common testbed.learning.data testbed.learning.data.own_files"
    " testbed.learning.data.readers testbed.learning.models",
    "testbed.learning.splits": "testbed.common testbed.learning.data",
    "testbed.learning.tasks": "testbed.common testbed.common.finders testbed.learning.data testbed.learning.flower"
    " testbed.learning.models testbed.learning.own_data testbed.learning.splits testbed.learning.training"
    " testbed.profile testbed.wire",
    "testbed.learning.training": "testbed.common testbed.common.finders testbed.learning.data"
    " testbed.learning.models testbed.wire",
    # the aggregator
    "aggregator": "aggregator.pacing aggregator.strategy testbed.common testbed.wire",
    "aggregator.strategy": "testbed.history.events testbed.wire",
    "aggregator.pacing": "aggregator.strategy testbed.common testbed.wire",
    "aggregator.strategies": "aggregator.strategy aggregator.strategies.asafl aggregator.strategies.eafl"
    " aggregator.strategies.grouped aggregator.strategies.per_k aggregator.strategies.per_round"
    " aggregator.strategies.per_tick aggregator.strategies.per_update testbed.common",
    "aggregator.strategies.grouped": "aggregator.pacing aggregator.strategy testbed.common testbed.wire",
    "aggregator.strategies.per_k": "aggregator.pacing aggregator.strategy testbed.common testbed.wire",
    "aggregator.strategies.per_round": "aggregator.pacing aggregator.strategy testbed.common testbed.wire",
    "aggregator.strategies.per_tick": "aggregator.pacing aggregator.strategy testbed.wire",
    "aggregator.strategies.per_update": "aggregator.pacing aggregator.strategy testbed.common testbed.wire",
    "aggregator.strategies.asafl": "aggregator.pacing aggregator.strategy testbed.common testbed.history.events"
    " testbed.wire",
    "aggregator.strategies.eafl": "aggregator.strategy testbed.common testbed.history.events testbed.wire",
    "aggregator.engine": "aggregator.strategy testbed.common testbed.common.files testbed.emulation testbed.history"
    " testbed.history.events testbed.profile testbed.wire",
    "aggregator.connections": "testbed.common testbed.history testbed.history.events testbed.host testbed.profile"
    " testbed.wire",
    "aggregator.course": "aggregator.connections aggregator.engine aggregator.strategy testbed.common"
    " testbed.common.files testbed.emulation testbed.history testbed.host testbed.profile testbed.wire",
    "aggregator.process": "aggregator aggregator.connections aggregator.engine aggregator.strategies"
    " aggregator.strategy testbed.common testbed.common.files testbed.common.finders testbed.emulation"
    " testbed.history testbed.history.events testbed.host testbed.learning.training testbed.profile testbed.wire"
    " aggregator.course",
    # one device; a cluster head is a small aggregator
    "devices": "devices.compute testbed.emulation testbed.history testbed.host testbed.host.quotas testbed.profile"
    " testbed.traces testbed.wire",
    "devices.compute": "testbed.common testbed.common.finders testbed.history testbed.host testbed.learning.data"
    " testbed.learning.training testbed.profile testbed.wire",
    "devices.cluster": "aggregator.engine aggregator.strategies.eafl aggregator.strategy devices testbed.emulation"
    " testbed.history testbed.profile testbed.wire",
    "devices.process": "devices devices.cluster devices.compute testbed.common testbed.emulation testbed.history"
    " testbed.host testbed.host.quotas testbed.learning.training testbed.wire",
    # application: may import devices and aggregator
    "testbed.loading": "aggregator.strategies testbed.common"
    " testbed.common.by_value testbed.common.files testbed.learning"
    " testbed.learning.splits"
    " testbed.learning.tasks testbed.profile testbed.wire",
    "testbed.planning": "testbed.common testbed.host testbed.host.memory testbed.profile testbed.traces testbed.wire",
    "testbed.runs.results": "testbed.common testbed.common.files testbed.host",
    "testbed.analysis": "testbed.common testbed.common.files testbed.history testbed.history.events"
    " testbed.runs.results testbed.wire",
    "testbed.replay": "testbed.analysis testbed.common testbed.emulation testbed.history testbed.profile"
    " testbed.runs.results testbed.traces",
    "testbed.fidelity": "testbed.common testbed.common.files testbed.emulation testbed.history testbed.planning"
    " testbed.profile testbed.runs.results testbed.wire",
    "testbed.processes.templates": "aggregator.process aggregator.strategies devices devices.compute devices.process"
    " testbed.common"
    " testbed.common.by_value testbed.common.finders testbed.common.files testbed.common.terminal testbed.host"
    " testbed.host.memory testbed.learning"
    " testbed.learning.tasks testbed.learning.training"
    " testbed.traces testbed.wire",
    "testbed.processes": "aggregator.process aggregator.strategies aggregator.strategy devices testbed.common"
    " testbed.common.by_value"
    " testbed.emulation testbed.host testbed.host.quotas testbed.learning testbed.planning testbed.processes.templates"
    " testbed.profile testbed.replay testbed.wire",
    "testbed.doctor": "testbed.common testbed.host testbed.host.memory testbed.host.quotas testbed.learning.data"
    " testbed.loading testbed.processes testbed.processes.templates testbed.wire",
    "testbed.runs": "aggregator.process testbed.analysis testbed.common testbed.common.files testbed.fidelity"
    " testbed.history testbed.host testbed.loading testbed.planning testbed.profile testbed.replay"
    " testbed.runs.results"
    " aggregator.course",
    "testbed.verification": "aggregator.engine aggregator.process aggregator.strategies aggregator.strategy devices"
    " devices.cluster devices.compute testbed.analysis testbed.common testbed.common.files testbed.common.finders"
    " testbed.emulation testbed.history"
    " testbed.history.events testbed.host testbed.learning testbed.learning.training testbed.profile testbed.runs"
    " testbed.runs.results testbed.wire",
    "testbed.trace_tools": "testbed.analysis testbed.common testbed.common.files testbed.common.terminal"
    " testbed.emulation testbed.history testbed.host"
    " testbed.loading testbed.replay testbed.runs testbed.traces testbed.traces.formats testbed.wire",
    "testbed.report": "testbed.common testbed.host testbed.report.content testbed.report.figures",
    "testbed.report.content": "aggregator.strategies testbed.analysis testbed.common testbed.common.files"
    " testbed.history testbed.host testbed.runs testbed.runs.results testbed.wire",
    "testbed.report.figures": "testbed.analysis testbed.common.files testbed.report.content",
    "testbed.twin": "aggregator.connections aggregator.course aggregator.process devices devices.cluster"
    " devices.compute devices.process testbed.common testbed.common.by_value testbed.common.finders"
    " testbed.emulation testbed.history"
    " testbed.host testbed.learning.training testbed.profile testbed.replay testbed.wire",
    "testbed.execution": "aggregator.process testbed.analysis testbed.common testbed.common.terminal testbed.history"
    " testbed.host"
    " testbed.host.memory testbed.learning testbed.learning.data testbed.loading testbed.planning testbed.processes"
    " testbed.processes.templates testbed.profile testbed.replay testbed.report testbed.report.content"
    " testbed.report.figures testbed.runs testbed.runs.results testbed.wire"
    " devices.compute testbed.common.finders testbed.emulation testbed.learning.training testbed.twin",
    "testbed.partition": "testbed.common testbed.learning.data testbed.report.figures",
    "testbed.comparison": "testbed.analysis testbed.common testbed.common.files testbed.history testbed.report.figures"
    " testbed.runs testbed.runs.results",
    "testbed.sweeps": "testbed.common testbed.common.finders testbed.common.files testbed.common.terminal"
    " testbed.host testbed.loading"
    " testbed.processes.templates"
    " testbed.profile testbed.runs",
    "testbed.theory": "testbed.common testbed.history testbed.loading testbed.runs testbed.wire",
    "testbed.papers": "testbed.common testbed.common.terminal testbed.learning.data testbed.papers.afl"
    " testbed.papers.asafl"
    " testbed.papers.asyncfeded testbed.papers.audg testbed.papers.eafl testbed.papers.framework"
    " testbed.report.figures testbed.runs testbed.sweeps",
    "testbed.papers.framework": "testbed.loading testbed.profile testbed.report.figures testbed.runs"
    " testbed.runs.results",
    "testbed.papers.afl": "testbed.papers.framework testbed.report.figures",
    "testbed.papers.asafl": "testbed.papers.framework",
    "testbed.papers.asyncfeded": "testbed.papers.framework",
    "testbed.papers.audg": "testbed.papers.framework testbed.theory",
    "testbed.papers.eafl": "testbed.papers.framework",
    "testbed.api": "aggregator.strategies aggregator.strategy testbed.common"
    " testbed.common.by_value testbed.common.finders"
    " testbed.comparison testbed.execution"
    " testbed.learning.data testbed.learning.tasks testbed.loading testbed.planning testbed.processes.templates"
    " testbed.profile testbed.report.content testbed.runs testbed.sweeps testbed.verification",
    "testbed.cli.parsers": "testbed.common testbed.learning.data testbed.theory testbed.trace_tools"
    " testbed.traces.formats",
    "testbed.cli.programs": "testbed.cli testbed.common.finders testbed.sweeps",
    "testbed.cli": "aggregator.strategies testbed.analysis testbed.cli.parsers testbed.common"
    " testbed.common.finders"
    " testbed.common.terminal"
    " testbed.comparison testbed.doctor testbed.execution testbed.history testbed.host testbed.learning"
    " testbed.learning.data testbed.learning.models testbed.learning.splits"
    " testbed.learning.tasks testbed.loading testbed.partition testbed.planning testbed.profile testbed.report.content"
    " testbed.runs testbed.runs.results testbed.sweeps testbed.theory testbed.trace_tools testbed.traces.formats"
    " testbed.verification testbed.wire",
}
"""Room → the other rooms that its modules may import."""


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {module_name(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}
ROOMS = {name for name, path in FILES.items() if path.name == "__init__.py"}


def room_of(module: str) -> str:
    return module if module in ROOMS else module.rpartition(".")[0]


def imports(text: str) -> Iterator[str]:
    """Every module named in an import, wherever it stands; of ``from a import b`` both a and a.b."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def imported(text: str) -> Iterator[str]:
    """As :func:`imports`; of ``from a import b`` only a.b where that is a module, and else only a."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in FILES else node.module or ""


def strings(text: str) -> set[str]:
    """Every string literal, up to a colon: ``package.module:function`` names a module, too."""
    found = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return {value.partition(":")[0] for value in found if isinstance(value, str)}


def below(module: str, *tops: str) -> bool:
    return any(module == top or module.startswith(f"{top}.") for top in tops)


TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in FILES.values()}
IMPORTS = {file: set(imports(text)) for file, text in TEXTS.items()}
FILE_OF = {module: path.relative_to(ROOT).as_posix() for module, path in FILES.items()}


def arrows(room: str) -> dict[str, set[str]]:
    """Room that is imported → the files that import it."""
    found: dict[str, set[str]] = {}
    for module in FILES:
        if room_of(module) == room:
            named = {name for name in imported(TEXTS[FILE_OF[module]]) if name in FILES}
            for other in {room_of(name) for name in named} - {room}:
                found.setdefault(other, set()).add(FILE_OF[module])
    return found


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


def test_names_of_modules_in_strings_are_found() -> None:
    assert strings("def f():\n    return start('devices.process:main')") == {"devices.process"}


def test_every_room_has_a_line() -> None:
    assert set(MAY_IMPORT) == ROOMS, "give each room a line in MAY_IMPORT, and delete the lines of rooms that are gone"


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_its_line_allows(room: str) -> None:
    allowed, found = set(MAY_IMPORT[room].split()), arrows(room)
    remedy = "move the name that is needed down to a room that both can import, or add the room to the line"
    assert not {other: files for other, files in found.items() if other not in allowed}, remedy
    assert not allowed - set(found), "nothing uses these any more: take them out of the line"


def test_arrows_between_rooms_point_down() -> None:
    try:
        TopologicalSorter({room: set(line.split()) for room, line in MAY_IMPORT.items()}).prepare()
    except CycleError as error:
        pytest.fail(f"rooms import each other: {' -> '.join(error.args[1])}; move what both need into a lower room")


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_is_small_enough_to_overlook(room: str) -> None:
    modules = [module for module in FILES if room_of(module) == room]
    assert len(modules) <= MOST_MODULES, "split the room: a folder of its own for what belongs together"


@pytest.mark.parametrize("file", IMPORTS)
def test_imports_are_absolute(file: str) -> None:
    assert not [module for module in IMPORTS[file] if module.startswith(".")]


@pytest.mark.parametrize("file", IMPORTS)
def test_no_module_is_named_in_a_string(file: str) -> None:
    named = {text for text in strings(TEXTS[file]) if "." in text and text in FILES}
    assert not named, "import the module and use its __name__, or pass the function itself"
    by_name = "import_module" in TEXTS[file] and file != "testbed/common/plugins.py"
    assert not by_name, "only a user's own class is imported by name: use Catalogue.find"


def public_classes(file: str) -> list[str]:
    return [n.name for n in ast.parse(TEXTS[file]).body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]


def test_no_public_class_name_stands_twice() -> None:
    where: dict[str, list[str]] = {}
    for file in TEXTS:
        for name in public_classes(file):
            where.setdefault(name, []).append(file)
    assert not {name: files for name, files in where.items() if len(files) > 1}, "one word, one thing: rename one"


PARALLEL = {"errors", "main", "paper", "reasons", "rows", "runs", "verdicts"}
"""The same thing in each place: exceptions, the entry point of a process, the parts of a paper's package."""


def test_no_module_name_stands_for_two_things() -> None:
    where: dict[str, list[str]] = {}
    for file in TEXTS:
        if not file.endswith("__init__.py"):
            where.setdefault(Path(file).stem, []).append(file)
    twice = {name: files for name, files in where.items() if len(files) > 1 and name not in PARALLEL}
    assert not twice, "a stranger searches by file name: rename one"


def test_nothing_that_runs_imports_the_tests() -> None:
    assert not [file for file, modules in IMPORTS.items() if any(below(module, "tests") for module in modules)]


STRATEGIES = [file for file in IMPORTS if file.startswith("aggregator/strategies/")]
FOR_STRATEGIES = (
    "aggregator.strategy",
    "aggregator.pacing",
    "aggregator.strategies",
    "testbed.wire.messages",
    "testbed.wire.training_job",
    "testbed.common.number_limits",
    "testbed.common.parameters",
    "numpy",
    "msgspec",
    "sklearn",
    *sys.stdlib_module_names,
)


@pytest.mark.parametrize("file", [file for file in STRATEGIES if not file.endswith(("/__init__.py", "_orders.py"))])
def test_a_strategy_sees_its_interface_and_numpy_only(file: str) -> None:
    assert not [module for module in IMPORTS[file] if not below(module, *FOR_STRATEGIES)]


@pytest.mark.parametrize("file", [file for file in STRATEGIES if not file.endswith("__init__.py")])
def test_a_strategy_does_not_import_another(file: str) -> None:
    room = room_of(module_name(ROOT / file))
    own = "its own file" if room.split(".")[-1].startswith("per_") else room
    others = [module for module in IMPORTS[file] if below(module, "aggregator.strategies") and not below(module, own)]
    assert others in ([], ["aggregator.strategies"])


CLOCKS = (
    "testbed/host/calibration.py",
    "testbed/host/memory/unique_memory.py",
    "testbed/common/clock.py",
    "testbed/doctor/benchmark.py",
    "testbed/execution/live_progress.py",
    "testbed/processes/pool.py",
    "testbed/report/second_process.py",
    "testbed/sweeps/runner.py",
    "testbed/processes/watchdog.py",
)
"""Who looks at the host's own clock: time as an argument, waiting for processes, and measuring the host."""


FIGURES = (
    "testbed/api/comparing.py",  # names the type only
    "testbed/partition/heatmap.py",
    "testbed/papers/*",
    "testbed/report/figures/*",
    "testbed/trace_tools/trace_plots.py",
)
"""Figures. They are imported when one is drawn, and not before."""


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("zmq", [f"testbed/wire/{name}.py" for name in ("sockets", "frames", "authentication", "connection_monitor")]),
        ("msgpack", []),  # msgspec writes and reads the wire; the tests check with this package that it is msgpack
        ("time", CLOCKS),
        ("random", ["testbed/learning/training/own_training.py"]),  # it seeds the generator of a user's code
        ("pickle", ["testbed/common/files/unpickle.py"]),
        ("tensorboard", ["testbed/runs/tensorboard.py"]),
        ("matplotlib", FIGURES),
        ("sklearn", ["aggregator/strategies/eafl/*", "testbed/learning/training/flat_estimator.py"]),
        ("cloudpickle", ["testbed/common/by_value/snapshot.py"]),
        ("jinja2", ["testbed/report/report_page.py", "testbed/comparison/compare_page.py"]),
        (
            "torch",
            [
                "testbed/learning/models/*",
                "testbed/learning/own_data/own_data.py",
                "testbed/learning/tasks/*",
                "testbed/learning/training/*",
                "testbed/processes/templates/template.py",
                "devices/compute/local_sgd.py",
                "devices/compute/optimizers.py",
                "testbed/learning/one_thread.py",
            ],
        ),
        ("threadpoolctl", ["testbed/learning/one_thread.py"]),
        ("flwr", ["testbed/learning/flower/*"]),
    ],
)
def test_a_module_stays_in_its_files(module: str, allowed: list[str]) -> None:
    users = [file for file, modules in IMPORTS.items() if any(below(name, module) for name in modules)]
    assert not [file for file in users if not any(fnmatch(file, pattern) for pattern in allowed)]
    # a line about files that no longer use the module has outlived its reason
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
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=300)


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
    """No message and no file is ever a program. (``testbed.common.files.unpickle`` can name numbers only.)

    An object of the user's own process is one: it comes as a descriptor, without a file or a path (ADR 31).
    """
    if file == "testbed/common/by_value/snapshot.py":
        return
    assert not [module for module in IMPORTS[file] if below(module, *READERS_OF_PROGRAMS)]
    assert not said(TEXTS[file]) & PROGRAMS
