"""Flower projects of both styles, opened as tasks: messages, models, state, and scores are those that Flower has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is in an environment of its own: make test-flower")

import torch

from testbed.learning.flower.flower_task import FlowerTask
from testbed.wire.training_job import Job
from tests.flower.projects_of_tests import PROJECTS, START, open_project, trained, write_project

LEAST_SQUARES = PROJECTS / "least_squares"


@pytest.fixture(scope="module")
def numbers() -> FlowerTask:
    return open_project(LEAST_SQUARES)


def test_samples_are_those_that_the_clients_tell(numbers: FlowerTask) -> None:
    assert [len(shard) for shard in numbers.shards] == [20, 30, 40]
    assert (numbers.training_samples, numbers.step_sizes) == (90, (20, 30, 40))


def test_samples_may_be_given(tmp_path: Path) -> None:
    folder = write_project(tmp_path, train="return reply(msg, [model + 1])")
    assert [len(shard) for shard in open_project(folder, samples=(7,)).shards] == [7, 7, 7]
    assert [len(shard) for shard in open_project(folder, samples=(1, 2, 3)).shards] == [1, 2, 3]


def test_floats_of_all_types_are_the_vector_and_whole_numbers_are_not(numbers: FlowerTask) -> None:
    assert numbers.initial().tolist() == [0, 0, 0, 0, 1, 1]
    assert {name: (part.dtype, part.shape) for name, part in numbers.tensors(numbers.initial()).items()} == {
        "0": (np.float32, (3,)),
        "1": (np.float32, ()),
        "2": (np.float32, (2,)),
    }


def test_clients_get_the_types_that_the_project_has(numbers: FlowerTask) -> None:
    layout = numbers._layout
    arrays = layout.arrays(numbers.initial(), layout.local)
    assert [array.dtype for array in arrays.values()] == [np.float64, np.float32, np.float16, np.int64]


def test_a_job_that_is_computed_again_has_the_same_result(numbers: FlowerTask) -> None:
    first, again = (trained(numbers, 1, numbers.initial()) for _ in range(2))
    other = trained(numbers, 1, numbers.initial(), number=1)
    assert first[0] == again[0]
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[1], other[1])


def test_the_devices_train_on_their_own_partitions(numbers: FlowerTask) -> None:
    models = [trained(numbers, device, numbers.initial())[1] for device in range(3)]
    assert len({model.tobytes() for model in models}) == 3


def test_steps_of_a_job_are_calls_of_the_client(numbers: FlowerTask) -> None:
    memory: dict[str, object] = {}
    losses, model = trained(numbers, 0, numbers.initial(), job=Job(steps=20, batch=0), memory=memory)
    assert len(losses) == 20
    assert losses[-1] < losses[0] / 5
    assert np.allclose(model[:3], [1, -2, 0.5], atol=0.9)
    assert memory["arrays"]["3"] == 20  # type: ignore[index]


def test_state_and_whole_numbers_stay_on_the_device(numbers: FlowerTask) -> None:
    memory: dict[str, object] = {}
    for job in range(3):
        trained(numbers, 0, numbers.initial(), number=job, memory=memory)
    assert memory["state"]["jobs"]["done"] == 3  # type: ignore[index]
    assert memory["arrays"]["3"] == 3  # type: ignore[index]


def test_a_state_that_a_client_replaces_is_kept(tmp_path: Path) -> None:
    train = """before = context.state["jobs"]["done"] if "jobs" in context.state else 0
    context.state = RecordDict({"jobs": MetricRecord({"done": before + 1})})
    return reply(msg, [model + before], **{"num-examples": 5})"""
    task = open_project(write_project(tmp_path, train=train))
    memory: dict[str, object] = {}
    trained(task, 0, task.initial(), job=Job(steps=3, batch=0), memory=memory)
    assert memory["state"]["jobs"]["done"] == 3  # type: ignore[index]
    assert trained(task, 0, task.initial(), number=1, memory=memory)[1].tolist() == [3, 3, 3]


def test_the_messages_of_round_n_are_those_of_the_projects_strategy(numbers: FlowerTask) -> None:
    config = numbers._messages.train(3).config_records["config"]
    assert dict(config) == {"server-round": 3, "proximal-mu": 0.1}
    assert numbers._messages.train(1).config_records["config"]["server-round"] == 1


def test_what_a_strategy_changes_from_round_to_round_is_changed() -> None:
    task = open_project(PROJECTS / "torch_messages")
    rates = [task._messages.train(number).config_records["config"]["lr"] for number in (1, 2, 3, 4, 1)]
    assert rates == pytest.approx([0.1, 0.09, 0.09, 0.081, 0.1])


def test_the_old_style_asks_its_function_for_each_round() -> None:
    task = open_project(PROJECTS / "torch_clients")
    rates = [task._messages.train(number).config_records["fitins.config"]["lr"] for number in (1, 4)]
    assert rates == pytest.approx([0.1, 0.05])


def test_scores_of_clients_are_weighted_by_their_samples(numbers: FlowerTask) -> None:
    from least_squares.points import points  # type: ignore[import-not-found]

    model = np.array([1, 2, 3, 4, 0, 0], np.float32)
    squares = [(inputs @ model[:3] + 4 - targets) ** 2 for inputs, targets in map(points, range(3))]
    assert numbers.evaluate(model) == {"loss": pytest.approx(np.concatenate(squares).mean(), rel=1e-4)}


def test_a_sample_of_the_clients_may_score() -> None:
    task = open_project(LEAST_SQUARES, devices=5, evaluated_clients=2)
    assert any("2 of the 5 partitions" in note for note in task.notes)
    assert set(task.evaluate(task.initial())) == {"loss"}


def test_the_server_scores_if_it_has_a_function_for_it() -> None:
    task = open_project(PROJECTS / "torch_messages")
    assert "scores: by the evaluate function of its ServerApp" in task.notes
    assert set(task.evaluate(task.initial())) == {"accuracy", "loss"}


def test_a_metric_may_be_named_the_accuracy() -> None:
    task = open_project(PROJECTS / "torch_clients", accuracy="eval_acc")
    assert set(task.evaluate(task.initial())) == {"accuracy", "loss"}


def test_the_notes_name_the_strategy_that_is_replaced(numbers: FlowerTask) -> None:
    assert numbers.notes[0] == (
        "Flower project least-squares: its strategy FedProx is replaced by the strategy of this profile"
    )
    assert "arrays 3: whole numbers, which each device keeps for itself" in numbers.notes


def test_both_styles_train_the_same_network_alike() -> None:
    messages, clients = open_project(PROJECTS / "torch_messages"), open_project(PROJECTS / "torch_clients")
    assert messages.size == clients.size
    start = messages.initial()
    models = [trained(task, 2, start)[1] for task in (messages, clients)]
    assert np.array_equal(*models)


def test_a_job_is_what_flower_computes_itself() -> None:
    from torch_messages.task import data, network, train  # type: ignore[import-not-found]

    task = open_project(PROJECTS / "torch_messages")
    model, start = network(), task.initial()
    values = task._layout.arrays(start, task._layout.local)
    model.load_state_dict({name: torch.tensor(value) for name, value in values.items()})
    seed = int(np.random.default_rng([7, 1, 0]).integers(2**32))
    torch.manual_seed(seed)
    network()  # the client makes one, too, before it draws batches
    loss = train(model, data(1, 3), 1, 0.1)
    losses, found = trained(task, 1, start)
    own = {name: value.numpy() for name, value in model.state_dict().items()}
    assert losses == [loss]
    assert np.array_equal(found, task._layout.vector(own, ""))


def test_the_run_configuration_may_be_changed(numbers: FlowerTask) -> None:
    still = open_project(LEAST_SQUARES, run_config={"lr": 1e-9})
    moved = np.abs(trained(still, 0, still.initial())[1] - still.initial()).max()
    assert moved < 1e-6
    assert np.abs(trained(numbers, 0, numbers.initial())[1] - numbers.initial()).max() > 0.1


def test_a_server_without_a_strategy_is_learned_from_its_first_message(tmp_path: Path) -> None:
    main = """content = RecordDict({"arrays": ArrayRecord([np.zeros(3)]), "config": ConfigRecord({"server-round": 1})})
    nodes = list(grid.get_node_ids())
    grid.send_and_receive([Message(content, dst_node_id=nodes[0], message_type="train")])"""
    task = open_project(write_project(tmp_path, main=main, train=GOOD_ROUND))
    assert trained(task, 0, task.initial(), number=4)[1].tolist() == [5, 5, 5]
    assert "its own rounds are replaced" in task.notes[0]


GOOD_ROUND = 'return reply(msg, [model + msg.content["config"]["server-round"]], **{"num-examples": 5})'


def test_a_strategy_with_a_start_of_its_own_does_not_start(tmp_path: Path) -> None:
    own = "FedAvg\n\nclass Own(FedAvg):\n    def start(self, *arguments):\n        1 / 0"
    main = "Own().start(grid, ArrayRecord([np.zeros(3)]))"
    task = open_project(write_project(tmp_path, main=main, strategy=own))
    assert "its strategy Own is replaced" in task.notes[0]


def test_what_a_server_does_after_its_rounds_is_not_done(tmp_path: Path) -> None:
    folder = write_project(tmp_path, main=f"{START}\n    open('saved', 'w').close()")
    open_project(folder)
    assert not (folder / "saved").exists()


OWN_STRATEGY = """FedAvg
import random
from pathlib import Path

class Own(FedAvg):
    def configure_train(self, server_round, arrays, config, grid):
        config["told"], config["drawn"] = Path("told.txt").read_text(), random.random()
        return super().configure_train(server_round, arrays, config, grid)
"""


def test_a_strategy_configures_its_rounds_in_the_folder_and_draws_the_same_again(tmp_path: Path) -> None:
    (tmp_path / "told.txt").write_text("yes", encoding="utf-8")
    folder = write_project(tmp_path, strategy=OWN_STRATEGY, main=START.replace("{strategy}", "Own"))
    tasks = [open_project(folder, samples=(5,)) for _ in range(2)]
    trained(tasks[0], 0, tasks[0].initial())  # what a client draws in between changes nothing
    first, second = ([task._messages.train(number)["config"] for number in (1, 2, 3)] for task in tasks)
    assert [dict(config) for config in first] == [dict(config) for config in second]
    assert {config["told"] for config in first} == {"yes"}
    assert len({config["drawn"] for config in first}) == 3


def test_relative_paths_are_those_of_the_project(tmp_path: Path) -> None:
    train = "np.load('numbers.npy')\n    return reply(msg, [model], **{'num-examples': len(np.load('numbers.npy'))})"
    folder = write_project(tmp_path, train=train)
    np.save(folder / "numbers.npy", np.arange(9))
    assert len(open_project(folder).shards[0]) == 9
