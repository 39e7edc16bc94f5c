"""Names in profiles: entries of a catalogue, a user's own classes, and names that are neither."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from testbed.common.errors import ProfileError
from testbed.common.finders import user_modules
from testbed.learning.tasks import TASKS
from testbed.learning.tasks.digits import Digits

OWN = """
from __future__ import annotations
import abc
from dataclasses import dataclass
from testbed.learning.tasks.recipe import Recipe

@dataclass
class Mine(Recipe):
    def data(self, setting): ...
    def network(self, data): ...

@dataclass
class Half(abc.ABC):
    @abc.abstractmethod
    def rest(self) -> None: ...

class Bare(Mine):
    pass

class Plain(Mine):
    more: int = 3

class Stranger:
    pass

number = 5
"""


@pytest.fixture(autouse=True)
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    modules = {
        "edgebed_own": OWN,
        "edgebed_torn": "def (",
        "edgebed_needy": "import edgebed_nowhere",
        "edgebed_wishful": "from json import nothing_like_it",
    }
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    user_modules.FINDER.search_in(tmp_path)


def find(name: str) -> type[object]:
    return TASKS.find(name, "mine.toml", "task")


def test_a_catalogue_name_stands_for_its_class() -> None:
    assert find("digits") is Digits


def test_a_users_own_class_is_found_next_to_the_profile() -> None:
    assert find("edgebed_own:Mine").__name__ == "Mine"
    assert find("edgebed_own:Bare").__name__ == "Bare"


@pytest.mark.parametrize(
    ("name", "fragments"),
    [
        ("digts", ["did you mean 'digits'", "your own as module:Class"]),
        ("zzz", ["known: cifar10, csv, digits", "your own as module:Class"]),
        ("", ["known: cifar10, csv, digits"]),
        (":Mine", ["your own as module:Class"]),
        (".edgebed_own:Mine", ["your own as module:Class"]),
        (
            "edgebed_absent:Mine",
            ["No module named 'edgebed_absent'", "searched in this folder and in that of the profile"],
        ),
        ("edgebed_needy:Mine", ["No module named 'edgebed_nowhere'"]),
        ("edgebed_torn:Mine", ["edgebed_torn cannot be imported", "invalid syntax", "line 1"]),
        ("edgebed_wishful:Mine", ["edgebed_wishful cannot be imported", "nothing_like_it"]),
        ("edgebed_own:Mien", ["edgebed_own has no Mien", "did you mean 'Mine'"]),
        ("edgebed_own:", ["or your own as module:Class"]),
        ("edgebed_own:number", ["number is not a class"]),
        ("edgebed_own:Half", ["Half is not complete: it must define rest"]),
        ("edgebed_own:Plain", ["put @dataclass above Plain"]),
        ("edgebed_own:Stranger", ["Stranger is not a Recipe: derive it from one"]),
    ],
)
def test_a_name_without_a_class_is_refused_with_source_key_value_and_remedy(name: str, fragments: list[str]) -> None:
    with pytest.raises(ProfileError) as caught:
        find(name)
    message = str(caught.value)
    assert message.startswith(f"mine.toml: task is {name!r}; ")
    for fragment in fragments:
        assert fragment in message


def test_the_import_path_stays_as_it_is(tmp_path: Path) -> None:
    before = sys.path.copy()
    find("edgebed_own:Mine")
    assert (sys.path, str(tmp_path) in sys.path) == (before, False)
