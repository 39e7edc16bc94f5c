"""Objects in a file and back: the same values, the same identities, and nothing that a reader did not ask for."""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from testbed.common import statefile
from testbed.common.statefile import StateError
from testbed.wire.messages import Job, Train, Vector

OURS = (__name__, "testbed.wire.messages")


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
    """Its fields are not all of it."""


def there_and_back(tree: Any, folder: Path) -> Any:
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
    found = there_and_back({"it": value}, tmp_path)["it"]
    assert found == value
    assert type(found) is type(value)


def test_no_number_is_still_no_number(tmp_path: Path) -> None:
    assert math.isnan(there_and_back([math.nan], tmp_path)[0])


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_arrays_come_back_bit_by_bit(kind: type, tmp_path: Path) -> None:
    array = np.array([[1.1, -2.5], [1e-30, 3]]).astype(kind)
    found = there_and_back({"a": array}, tmp_path)["a"]
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    found[0, 0] = 7  # it could be written to


def test_an_array_that_nobody_may_write_to_is_not_copied_and_stays_so(tmp_path: Path) -> None:
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    [drafted] = statefile.draft([array], OURS).arrays.values()
    assert drafted is array
    with pytest.raises(ValueError, match="read-only"):
        there_and_back([array], tmp_path)[0][0] = 2


def test_a_draft_is_of_its_moment(tmp_path: Path) -> None:
    array, path = np.ones(3, np.float32), tmp_path / "state"
    draft = statefile.draft({"sum": array}, OURS)
    array += 1
    draft.write(path, {})
    assert statefile.read(path, OURS)["sum"].tolist() == [1, 1, 1]


def test_what_was_one_object_is_one_object_again(tmp_path: Path) -> None:
    model = np.zeros(2, np.float32)
    train = Train(ticket=1, version=0, sent=0.0, job=Job(), model=model)
    shared = [1]
    tree = {
        "lists": (shared, shared),
        "model": model,
        "trains": [train, train],
        "by name": {"a": train},
        "held": Slotted("x", train),
    }
    found = there_and_back(tree, tmp_path)
    assert found["trains"][0] is found["trains"][1] is found["by name"]["a"] is found["held"].inner
    assert found["trains"][0].model is found["model"]
    assert found["lists"][0] is found["lists"][1]


def test_an_object_may_be_part_of_itself(tmp_path: Path) -> None:
    knot = Slotted("knot")
    knot.inner = [knot]
    found = there_and_back(knot, tmp_path)
    assert found.inner[0] is found


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.Philox, np.random.SFC64])
def test_a_generator_goes_on_where_it_was(bits: Any, tmp_path: Path) -> None:
    random = np.random.Generator(bits(5))
    random.normal(size=3)
    found = there_and_back(random, tmp_path)
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
def test_what_cannot_be_kept_is_told_with_its_place(value: Any) -> None:
    with pytest.raises(StateError, match=r"state\['rule'\]\.inner is a .* which cannot be kept"):
        statefile.draft({"rule": Slotted("a", value)}, OURS)


def test_notes_are_read_without_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "state"
    statefile.draft([1], OURS).write(path, {"version": "7"})
    assert statefile.notes_of(path)["version"] == "7"


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "builtins:eval", "testbed.messages_evil:Job", ""])
def test_no_type_of_others_is_made(name: str, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no part of a run's state"):
        statefile.read(forged(tmp_path, {"id": 0, "object": name, "fields": {}}), OURS)


@pytest.mark.parametrize(
    "tree",
    [
        {"id": 0, "object": "testbed.wire.messages:first_ticket", "fields": {}},
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
        with pytest.raises(StateError, match="no state of a run"):
            read(path)
    with pytest.raises(FileNotFoundError):
        statefile.notes_of(tmp_path / "nothing")


def test_a_list_may_be_in_itself_and_what_is_too_deep_is_told(tmp_path: Path) -> None:
    knot: list[Any] = []
    knot.append(knot)
    found = there_and_back(knot, tmp_path)
    assert found[0] is found
    for _ in range(100_000):
        knot = [knot]
    with pytest.raises(StateError, match="nested too deeply"):
        statefile.draft(knot, OURS)
