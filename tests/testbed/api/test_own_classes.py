"""Strategies and tasks as names, tables, classes and objects."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from aggregator.strategies import STRATEGIES
from aggregator.strategies.per_k.fedbuff import FedBuff
from testbed.api.own_classes import as_named, check_not_in_a_run
from testbed.common.plugins import IN_A_RUN
from testbed.errors import UserError
from testbed.learning.tasks import TASKS
from tests.testbed.api.own_strategy import Half, Outer

PATH = "tests.testbed.api.own_strategy:Half"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("fedbuff", "fedbuff"),
        ({"name": "fedbuff", "k": 3}, {"name": "fedbuff", "k": 3}),
        (FedBuff, "fedbuff"),
        (Half, PATH),
        (Half(share=0.25), {"name": PATH, "share": 0.25}),
    ],
)
def test_every_way_to_name_a_strategy(given: object, named: object) -> None:
    assert as_named(given, STRATEGIES, "strategy") == named


def test_an_object_of_a_shipped_class_has_its_name_and_parameters() -> None:
    named = as_named(FedBuff(k=7), STRATEGIES, "strategy")
    assert isinstance(named, dict)
    assert (named["name"], named["k"]) == ("fedbuff", 7)


def test_a_task_is_named_in_the_same_way() -> None:
    assert as_named(TASKS["digits"], TASKS, "task") == "digits"


@pytest.mark.parametrize("given", [lambda update: 1.0, 3, [Half]])
def test_what_is_no_class_is_refused(given: object) -> None:
    with pytest.raises(UserError, match="it must be a name, a class, or an object of such a class"):
        as_named(given, STRATEGIES, "strategy")


def test_a_class_within_a_function_or_class_is_refused() -> None:
    class Local(Half):
        """Within a function."""

    for given in (Local, Outer.Inner):
        with pytest.raises(UserError, match="move it to the top level of a module"):
            as_named(given, STRATEGIES, "strategy")


def in_main(monkeypatch: pytest.MonkeyPatch, file: Path | None) -> type[Half]:
    """A class that is defined in ``__main__``: a script, or a notebook if there is no file."""
    main = ModuleType("__main__")
    own = type("Own", (Half,), {"__module__": "__main__", "__qualname__": "Own"})
    main.Own = own  # type: ignore[attr-defined]
    if file is not None:
        main.__file__ = str(file)
    monkeypatch.setitem(sys.modules, "__main__", main)
    return own


def test_a_class_of_a_notebook_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    own = in_main(monkeypatch, None)
    with pytest.raises(UserError, match=r"is defined in this notebook or shell, .* %%writefile own\.py"):
        as_named(own, STRATEGIES, "strategy")


def test_a_class_of_a_script_is_imported_by_the_name_of_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "my_script.py"
    script.touch()
    own = in_main(monkeypatch, script)
    monkeypatch.delitem(sys.modules, "my_script", raising=False)
    assert as_named(own, STRATEGIES, "strategy") == "my_script:Own"
    assert sys.modules.pop("my_script") is sys.modules["__main__"], "it is not executed once more in this process"
    sys.modules["__main__"].__spec__ = ModuleSpec("package.my_script", None)
    monkeypatch.delitem(sys.modules, "package.my_script", raising=False)
    assert as_named(own, STRATEGIES, "strategy") == "package.my_script:Own", "of python -m package.my_script"
    del sys.modules["package.my_script"]


def test_a_script_needs_a_name_that_can_be_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "my-script.py"
    script.touch()
    own = in_main(monkeypatch, script)
    with pytest.raises(UserError, match=r"my-script\.py cannot be imported under this name; .* such as my_script\.py"):
        as_named(own, STRATEGIES, "strategy")


def test_a_file_that_has_changed_since_its_class_was_used_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "own_file.py"
    file.touch()
    module = ModuleType("own_file")
    module.__file__ = str(file)
    own = module.Own = type("Own", (Half,), {"__module__": "own_file", "__qualname__": "Own"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_file", module)
    assert as_named(own, STRATEGIES, "strategy") == as_named(own, STRATEGIES, "strategy") == "own_file:Own"
    os.utime(file, (1.0, 1.0))
    with pytest.raises(UserError, match=r"has changed since it was imported; .*importlib\.reload\(own_file\)"):
        as_named(own, STRATEGIES, "strategy")


def test_a_class_that_its_module_does_not_have_is_refused() -> None:
    lost = type("Lost", (Half,), {"__module__": "tests.testbed.api.own_strategy", "__qualname__": "Lost"})
    with pytest.raises(UserError, match="has no such class"):
        as_named(lost, STRATEGIES, "strategy")


def test_a_process_of_a_run_starts_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    check_not_in_a_run()
    monkeypatch.setenv(IN_A_RUN, "1")
    with pytest.raises(UserError, match='under if __name__ == "__main__"'):
        check_not_in_a_run()
