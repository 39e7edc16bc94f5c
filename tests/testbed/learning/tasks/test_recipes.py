"""A user's own task: two torch data sets and a network are enough; errors in them are reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from testbed.common.errors import UserError
from testbed.common.parameters import ParameterError
from testbed.learning.data.dataset import DataSet, Subset
from testbed.learning.tasks.digits import Digits
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.setting import Setting

SETTING = Setting(devices=3, data_seed=1, model_seed=1)


class Items(Dataset[Any]):
    """A data set of the given items."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.asked: list[int] = []

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Any:
        self.asked.append(number)
        return self.items[number]


def points(count: int) -> Items:
    return Items([(torch.tensor([float(i), -float(i)]), i % 2) for i in range(count)])


@dataclass(kw_only=True)
class Own(Recipe):
    train: Any = field(default_factory=lambda: points(30))
    test: Any = field(default_factory=lambda: points(9))

    def data(self, setting: Setting) -> Any:
        return self.train, self.test

    def network(self, data: DataSet) -> nn.Module:
        return nn.Linear(2, max(1, len(data.classes)))


def test_two_data_sets_and_a_network_are_a_task() -> None:
    task = Own().open(SETTING)
    assert [len(shard) for shard in task.shards] == [10, 10, 10]
    assert task.size == 6
    assert set(task.evaluate(task.initial())) == {"accuracy", "loss"}
    assert task.gradient(task.shards[0]) > 0


def test_items_are_read_when_they_are_needed() -> None:
    train = points(30)
    task = Own(train=train).open(SETTING)
    train.asked.clear()
    task.gradient(np.array([4, 7]))
    assert train.asked == [4, 7]


def test_a_tensor_data_set_is_used_without_copying_items() -> None:
    labels = torch.arange(20) % 2
    own = TensorDataset(torch.stack([labels, -labels], dim=1).float(), labels)
    recipe = Own(train=own, test=own, split={"name": "labels", "per_device": 1})
    task = recipe.open(Setting(devices=2))
    assert [set(labels[torch.from_numpy(shard)].tolist()) for shard in task.shards] in ([{0}, {1}], [{1}, {0}])


def test_the_network_of_a_task_depends_only_on_the_model_seed() -> None:
    torch.manual_seed(99)
    one = Own().open(SETTING).initial()
    torch.manual_seed(100)
    assert np.array_equal(one, Own().open(SETTING).initial())
    assert not np.array_equal(one, Own().open(Setting(devices=3, data_seed=1, model_seed=2)).initial())


def test_a_task_may_define_loss_metrics_and_derived_metrics() -> None:
    @dataclass(kw_only=True)
    class Absolute(Own):
        def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            return (outputs.squeeze(1) - targets).abs().mean()

        def metrics(self, outputs: torch.Tensor, targets: torch.Tensor) -> Mapping[str, float]:
            return {"mean_output": float(outputs.mean())}

        def derived(self, means: Mapping[str, float]) -> Mapping[str, float]:
            return {"twice": 2 * means["loss"]}

    values = Items([(torch.tensor([1.0, 2.0]), float(i)) for i in range(9)])
    task = Absolute(train=values, test=values).open(SETTING)
    score = task.evaluate(np.zeros(3, np.float32))
    assert score == {"mean_output": 0.0, "loss": pytest.approx(4.0), "twice": pytest.approx(8.0)}


def test_a_task_may_assign_its_samples_itself() -> None:
    @dataclass(kw_only=True)
    class Mine(Own):
        def assign(self, data: DataSet, setting: Setting) -> Any:
            return [np.arange(device, 30, 3) for device in range(3)], np.arange(4)

    assert Mine().open(SETTING).shards[1].tolist() == list(range(1, 30, 3))


def test_a_split_that_does_not_fit_names_its_key() -> None:
    with pytest.raises(ParameterError, match="2 classes") as caught:
        Own(split={"name": "labels", "per_device": 3}).open(SETTING)
    assert caught.value.key == "split.per_device"


class Endless(torch.utils.data.IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([])


BAD: dict[str, tuple[Any, str]] = {
    "no length": (Endless(), "the training data has no length"),
    "empty data": (Items([]), "the training data is empty"),
    "an item that is not a pair": (Items([torch.zeros(2)]), "item 0 of the training data is Tensor; it must be"),
    "a string as input": (
        Items([(torch.zeros(2), 0), ("word", 1)]),
        "the input of item 1 of the training data is not an array",
    ),
    "NaN input": (
        Items([(torch.zeros(2), 0), (torch.tensor([0.0, float("nan")]), 1)]),
        "the input of item 1 of the training data is not finite",
    ),
    "infinite target": (
        Items([(torch.zeros(2), float("inf"))]),
        "the target of item 0 of the training data is not fin",
    ),
    "NaN in a tensor": (
        TensorDataset(torch.tensor([[0.0, 0.0], [float("nan"), 0.0], [0.0, float("inf")]]), torch.tensor([0, 1, 0])),
        "the training data: the input of sample 1, and of 1 more is not finite",
    ),
    "inputs of two shapes": (
        Items([(torch.zeros(2), 0), (torch.zeros(3), 1), (torch.zeros(2), 0)]),
        "item 1 of the training data has the shape (3,), but item 0 has (2,)",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_unusable_data_is_refused_with_its_place(what: str) -> None:
    data, problem = BAD[what]
    with pytest.raises(UserError) as caught:
        Own(train=data).open(SETTING)
    assert problem in str(caught.value)


def test_inconsistent_arrays_are_refused() -> None:
    @dataclass(kw_only=True)
    class Arrays(Own):
        part: Subset

        def data(self, setting: Setting) -> DataSet:
            return DataSet(train=self.part, test=self.part, classes=("a", "b"))

    inputs = np.zeros((4, 2), np.float32)
    for part, problem in (
        (Subset(inputs=inputs, targets=np.zeros(5, np.int64)), "has 4 inputs and 5 targets"),
        (Subset(inputs=inputs, targets=np.array([0, 1, 2, 0])), "the label of sample 2 is 2; it must be in 0 to 1"),
        (Subset(inputs=inputs, targets=np.array([0, 1, 1, -1])), "the label of sample 3 is -1"),
        (Subset(inputs=inputs, targets=np.zeros(4, np.int64), owners=np.zeros(3, np.int64)), "4 samples and 3 owners"),
    ):
        with pytest.raises(UserError, match=problem):
            Arrays(part=part).open(SETTING)


def test_only_test_samples_of_assigned_owners_are_scored() -> None:
    @dataclass(kw_only=True)
    class Owned(Own):
        owners: Any = field(default_factory=lambda: np.arange(9) % 5)

        def data(self, setting: Setting) -> DataSet:
            train = Subset(
                inputs=np.zeros((30, 2), np.float32), targets=np.arange(30) % 2, owners=np.repeat(np.arange(5), 6)
            )
            test = Subset(inputs=np.zeros((9, 2), np.float32), targets=np.arange(9) % 2, owners=self.owners)
            return DataSet(train=train, test=test, classes=("a", "b"))

    recipe = Owned(split="natural")
    data = recipe.dataset(SETTING)
    shards, test = recipe.assign(data, SETTING)
    assert data.train.owners is not None
    chosen = {int(owner) for shard in shards for owner in data.train.owners[shard]}
    assert len(chosen) == 3
    assert {int(number) % 5 for number in test} == chosen
    strangers = Owned(split="natural", owners=np.arange(9) + 100)  # like the test writers of MNIST
    assert len(strangers.assign(strangers.dataset(SETTING), SETTING)[1]) == 9


# ---- frequent mistakes


def test_metrics_may_be_tensors() -> None:
    @dataclass(kw_only=True)
    class Tensors(Own):
        def metrics(self, outputs: torch.Tensor, targets: torch.Tensor) -> Mapping[str, Any]:
            return {"accuracy": (outputs.argmax(1) == targets).float().mean()}

        def derived(self, means: Mapping[str, float]) -> Mapping[str, Any]:
            return {"root": torch.tensor(means["loss"]).sqrt()}

    task = Tensors().open(SETTING)
    assert {type(value) for value in task.evaluate(task.initial()).values()} == {float}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (lambda: ([np.arange(3)] * 2, np.arange(4)), "Assigning.assign returned 2 lists for 3 devices"),
        (
            lambda: ([np.arange(3), np.arange(0), np.arange(3)], np.arange(4)),
            "Assigning.assign returned for device 1 an array of",
        ),
        (lambda: ([np.arange(3)] * 3, np.array([99])), "Assigning.assign returned for testing the sample number 99"),
    ],
)
def test_an_assignment_by_the_task_is_checked(given: Any, problem: str) -> None:
    @dataclass(kw_only=True)
    class Assigning(Own):
        def assign(self, data: DataSet, setting: Setting) -> Any:
            return given()

    with pytest.raises(ParameterError, match=problem):
        Assigning().open(SETTING)


@pytest.mark.parametrize(
    ("given", "problem"),
    [(None, "Own.data returned NoneType"), ((1, 2, 3), "Own.data returned tuple of 3"), (7, "returned int")],
)
def test_data_that_is_not_two_data_sets_is_refused(given: Any, problem: str) -> None:
    class Strange(Own):
        def data(self, setting: Setting) -> Any:
            return given

    Strange.__name__ = "Own"
    with pytest.raises(UserError, match=f"{problem}.*it must return two data sets"):
        Strange().open(SETTING)


def test_a_tensor_that_requires_gradients_is_valid_data() -> None:
    own = TensorDataset(torch.ones(6, 2, requires_grad=True), torch.arange(6) % 2)
    assert Own(train=own, test=own).open(SETTING).gradient(np.arange(3)) > 0


def test_labels_of_plus_and_minus_one_are_valid_with_the_tasks_own_loss() -> None:
    @dataclass(kw_only=True)
    class Signs(Own):
        def network(self, data: DataSet) -> nn.Module:
            return nn.Linear(2, 1)

        def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            assert set(targets.tolist()) <= {-1, 1}
            return (1 - targets * outputs.squeeze(1)).clamp(min=0).mean()

        def metrics(self, outputs: torch.Tensor, targets: torch.Tensor) -> Mapping[str, float]:
            return {}

    labels = torch.arange(20) % 2 * 2 - 1
    own = TensorDataset(torch.stack([labels, -labels], dim=1).float(), labels)
    task = Signs(train=own, test=own, split={"name": "labels", "per_device": 1}).open(Setting(devices=2))
    assert [set(labels[torch.from_numpy(shard)].tolist()) for shard in task.shards] in ([{-1}, {1}], [{1}, {-1}])
    assert set(task.evaluate(task.initial())) == {"loss"}


def test_data_drawn_with_torch_and_the_data_seed_differs_from_the_weights() -> None:
    initial = Own().open(Setting(devices=3, data_seed=5, model_seed=5)).initial()
    drawn = torch.rand(6, generator=torch.Generator().manual_seed(5)).numpy()
    assert abs(np.corrcoef(initial, drawn)[0, 1]) < 0.999


def test_a_note_says_which_training_is_used_and_which_method_nobody_calls() -> None:
    class Misspelt(Digits):
        def trian(self, local: object) -> None: ...

        def helper(self) -> None: ...

    class Trained(Misspelt):
        def train(self, local: object) -> Iterator[float]:
            yield 1.0

    assert Misspelt().open(SETTING).notes == ("Misspelt.trian is not called by the testbed; did you mean 'train'?",)
    [note, _] = Trained().open(SETTING).notes
    assert note.startswith("local training: ")
    assert note.endswith("Trained.train, step by step")
    assert Digits().open(SETTING).notes == ()
