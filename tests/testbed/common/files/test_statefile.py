"""State files: values and identities are restored, and only allowed classes are constructed."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from testbed.common.files import statefile
from testbed.common.files.statefile import StateError
from testbed.wire.messages import Train, Vector
from testbed.wire.training_job import Job

OURS = (__name__, "testbed.wire.messages", "testbed.wire.training_job")


@dataclass(slots=True)
class Slotted:
    name: str
    inner: Any = None


@dataclass(frozen=True)
class Frozen:
    value: float


@dataclass
class Plain:
    counts: Counter[str] = field(default_factory=Counter)
    kept: Vector | None = None


class Own(dict[str, int]):
    """Its fields are not its whole state."""


def saved_and_read(tree: Any, folder: Path) -> Any:
    path = folder / "state.safetensors"
    statefile.draft(tree, OURS).write(path, {})
    return statefile.read(path, OURS)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**70),
        1.5,
        math.inf,
        "ä\n",
        [],
        [1, [2]],
        (),
        (1, "a"),
        {},
        {"a": 1, 3: (4,)},
        {(1, 2): {5}},
        frozenset({1, 2}),
        deque([1, 2]),
        Counter("hello"),
        np.float32(0.1),
        np.int64(-3),
        Slotted("a", [1]),
        Frozen(2.5),
        Plain(Counter("aab")),
        Job(steps=3, lr=0.25),
    ],
)
def test_values_come_back_as_they_were(value: Any, tmp_path: Path) -> None:
    found = saved_and_read({"it": value}, tmp_path)["it"]
    assert found == value
    assert type(found) is type(value)


def test_no_number_is_still_no_number(tmp_path: Path) -> None:
    assert math.isnan(saved_and_read([math.nan], tmp_path)[0])


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_arrays_come_back_bit_by_bit(kind: type, tmp_path: Path) -> None:
    array = np.array([[1.1, -2.5], [1e-30, 3]]).astype(kind)
    found = saved_and_read({"a": array}, tmp_path)["a"]
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    found[0, 0] = 7  # it was writeable


def test_a_read_only_array_is_not_copied_and_stays_read_only(tmp_path: Path) -> None:
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    [drafted] = statefile.draft([array], OURS).arrays.values()
    assert drafted is array
    with pytest.raises(ValueError, match="read-only"):
        saved_and_read([array], tmp_path)[0][0] = 2


def test_a_draft_does_not_follow_later_changes(tmp_path: Path) -> None:
    array, path = np.ones(3, np.float32), tmp_path / "state"
    draft = statefile.draft({"sum": array}, OURS)
    array += 1
    draft.write(path, {})
    assert statefile.read(path, OURS)["sum"].tolist() == [1, 1, 1]


def test_a_shared_object_is_one_object_again(tmp_path: Path) -> None:
    model = np.zeros(2, np.float32)
    train = Train(ticket=1, version=0, sent=0.0, job=Job(), model=model)
    shared = [1]
    tree = {
        "lists": (shared, shared),
        "model": model,
        "trains": [train, train],
        "by name": {"a": train},
        "nested": Slotted("x", train),
    }
    found = saved_and_read(tree, tmp_path)
    assert found["trains"][0] is found["trains"][1] is found["by name"]["a"] is found["nested"].inner
    assert found["trains"][0].model is found["model"]
    assert found["lists"][0] is found["lists"][1]


def test_an_object_may_contain_itself(tmp_path: Path) -> None:
    knot = Slotted("knot")
    knot.inner = [knot]
    found = saved_and_read(knot, tmp_path)
    assert found.inner[0] is found


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.Philox, np.random.SFC64])
def test_a_generator_continues_where_it_was(bits: Any, tmp_path: Path) -> None:
    random = np.random.Generator(bits(5))
    random.normal(size=3)
    found = saved_and_read(random, tmp_path)
    assert found.normal(size=5).tolist() == random.normal(size=5).tolist()


@pytest.mark.parametrize(
    "value",
    [
        lambda: 1,
        print,
        open,
        object(),
        type,
        b"bytes",
        iter([]),
        defaultdict(int),
        OrderedDict(),
        Path("x"),
        Own(a=1),
        np.random.Generator(np.random.MT19937(1)),
    ],
)
def test_an_object_that_cannot_be_saved_is_refused_with_its_place(value: Any) -> None:
    with pytest.raises(StateError, match=r"state\['strategy'\]\.inner is a .* which cannot be saved"):
        statefile.draft({"strategy": Slotted("a", value)}, OURS)


def test_notes_are_read_without_the_tree(tmp_path: Path) -> None:
    path = tmp_path / "state"
    statefile.draft([1], OURS).write(path, {"version": "7"})
    assert statefile.notes_of(path)["version"] == "7"


def test_a_file_that_cannot_be_replaced_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state"
    statefile.draft([1], OURS).write(path, {})
    (tmp_path / "state.new").mkdir()  # so that the draft cannot be written
    with pytest.raises(StateError):
        statefile.draft([2], OURS).write(path, {})
    assert statefile.read(path, OURS) == [1]


def forged(folder: Path, tree: Any) -> Path:
    path = folder / "forged"
    save_file({}, path, metadata={"tree": json.dumps(tree)})
    return path


@pytest.mark.parametrize(
    "name", ["os:system", "subprocess:Popen", "builtins:eval", "testbed.wire.messages_evil:Job", ""]
)
def test_a_class_of_another_module_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="not allowed in a state file"):
        statefile.read(forged(tmp_path, {"id": 0, "object": name, "fields": {}}), OURS)


def test_a_module_that_is_not_imported_is_refused_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, package = tmp_path / "it-ran", "edgebed_dormant"
    (tmp_path / f"{package}.py").write_text(f"open({str(mark)!r}, 'w')\nclass Job: pass\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    path = forged(tmp_path, {"id": 0, "object": f"{package}:Job", "fields": {}})
    with pytest.raises(StateError, match=f"contains a {package}:Job, but {package} is not imported"):
        statefile.read(path, (package,))
    assert package not in sys.modules
    assert not mark.exists()


@pytest.mark.parametrize(
    "tree",
    [
        {"id": 0, "object": f"{__name__}:saved_and_read", "fields": {}},
        {"id": 0, "object": "testbed.wire.messages:Nothing", "fields": {}},
        {"id": 0, "object": "testbed.wire.messages:Train", "fields": {"nonsense": 1}},
        {"again": 5},
        {"id": 0, "array": 3, "frozen": False},
        {"id": 0, "random": "Evil", "state": {}},
        {"id": 0, "map": "x", "items": []},
        {"id": 0, "of": "list", "items": 3},
        {},
    ],
)
def test_a_forged_tree_is_refused(tree: Any, tmp_path: Path) -> None:
    with pytest.raises(StateError):
        statefile.read(forged(tmp_path, tree), OURS)


def test_any_other_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"\x80\x04\x95 a pickle, perhaps")
    for read in (statefile.notes_of, lambda each: statefile.read(each, OURS)):
        with pytest.raises(StateError, match="not a state file"):
            read(path)
    with pytest.raises(FileNotFoundError):
        statefile.notes_of(tmp_path / "nothing")


def test_a_list_may_contain_itself_and_deep_nesting_is_refused(tmp_path: Path) -> None:
    knot: list[Any] = []
    knot.append(knot)
    found = saved_and_read(knot, tmp_path)
    assert found[0] is found
    for _ in range(100_000):
        knot = [knot]
    with pytest.raises(StateError, match="nested too deeply"):
        statefile.draft(knot, OURS)
