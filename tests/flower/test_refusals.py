"""What a Flower project does wrong is told in one line, with the place and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is in an environment of its own: make test-flower")

from testbed.common.errors import UserError
from testbed.learning.training.own_training import OwnTrainingError
from testbed.wire.training_job import Job
from tests.flower.projects_of_tests import GOOD, PROJECTS, START, open_project, trained, write_project

_CLIENTS: list[tuple[str, str]] = [
    ("raise ValueError('bad luck')", r"client\.py:\d+, in train: ValueError: bad luck"),
    ("return reply(msg, [model[:2]], **{'num-examples': 5})", r"array 0 as float64 of shape \(2,\).*shape \(3,\)"),
    ("return reply(msg, [model, model], **{'num-examples': 5})", "returned 2 arrays .* the initial model has 1"),
    ("return reply(msg, [model * np.nan], **{'num-examples': 5})", "3 numbers are not finite"),
    ("return reply(msg, None, **{'num-examples': 5})", "returned 0 ArrayRecords; it must return one: its model"),
    ("return reply(msg, [model])", "returned no num-examples, the number of its samples; .* task.samples"),
    ("return reply(msg, [model], **{'num-examples': 0})", "returned 0 as num-examples"),
    (f"context.state = {{}}; {GOOD}", r"left a dict as context\.state; it must be a RecordDict"),
    ("return None", "returned NoneType; it must return a Message"),
    ("threading.Thread(target=print).start()", r"client\.py:\d+, in train: local training starts a thread"),
    ("os.fork()", r"client\.py:\d+, in train: local training forks"),
    ("subprocess.run(['true'])", r"client\.py:\d+, in train: .* starts a process"),
    ("while True: pass", r"client\.py:\d+, in train: .* has not ended after 0.5 s of computing"),
    ("socket.create_connection(('example.org', 80))", r"connects to example.org:80, and a run has no network; .*disk"),
    ("with socket.socket() as end: end.connect(('127.0.0.1', 9))", r"connects to \('127.0.0.1', 9\)"),
]


@pytest.mark.parametrize(("train", "told"), _CLIENTS)
def test_a_client_that_does_what_it_must_not_is_told_with_its_line(train: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=told) as error:
        open_project(write_project(tmp_path, train=train), patience=0.5)
    assert str(error.value).startswith("Flower project written: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("train", "told"), [each for each in _CLIENTS if "examples" not in each[1]])
def test_a_job_of_such_a_client_is_told_with_its_number(train: str, told: str, tmp_path: Path) -> None:
    wrong = f"if context.node_config['partition-id'] == 1:\n        {train}\n    {GOOD}"
    task = open_project(write_project(tmp_path, train=wrong), samples=(5,), patience=0.5)
    assert trained(task, 0, task.initial())[1].tolist() == [1, 1, 1]
    with pytest.raises(OwnTrainingError, match=told) as error:
        trained(task, 1, task.initial(), number=6)
    assert str(error.value).startswith("job 6: ")


_PROJECTS: list[tuple[dict[str, str], str]] = [
    ({"main": "return"}, "the ServerApp ended without a round of training"),
    ({"main": "1 / 0"}, r"server\.py:\d+, in main: ZeroDivisionError"),
    ({"strategy": "DifferentialPrivacyServerSideFixedClipping as Private",
      "main": "Private(FedAvg(), 1.0, 1.0, 2).start(grid, ArrayRecord([np.ones(2)]))"},
     "adds noise at the server.*LocalDpMod"),
    ({"main": "FedAvg().start(grid, ArrayRecord([np.ones(2, int)]))"}, "no array .* has floating-point numbers"),
    ({"main": "FedAvg().start(grid, ArrayRecord([np.ones(2, complex)]))"}, "array 0 .* has type complex128"),
    ({"main": "FedAvg(fraction_train=0.0).start(grid, ArrayRecord([np.ones(2)]))"}, "sends no message in round 1"),
    ({"main": 'grid.push_messages([Message(RecordDict(), dst_node_id=1, message_type="query")])'},
     "begins with messages of type 'query'"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "told"), _PROJECTS)
def test_a_server_that_cannot_run_here_is_refused_by_name(parts: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=told):
        open_project(write_project(tmp_path, **parts))


@pytest.mark.parametrize(
    ("main", "told"),
    [
        (START, "FedAvg waits for 2 nodes, and the fleet has 1; lower its min_available_nodes, min_train_nodes, or"
         r" set devices\.count = 2"),
        ("FedAvg(1, 1, min_available_nodes=1, min_train_nodes=1, min_evaluate_nodes=4).start(\n"
         "        grid=grid, initial_arrays=ArrayRecord([np.ones(2)]))",
         "waits for 4 nodes, .* lower its min_evaluate_nodes"),
        ("import time\n    while len(list(grid.get_node_ids())) < 2: time.sleep(0.01)", "waits until more nodes are"),
    ],
)  # fmt: skip
def test_a_server_that_waits_for_more_nodes_than_devices_is_refused(main: str, told: str, tmp_path: Path) -> None:
    folder = write_project(tmp_path, main=main)
    [client] = folder.glob("*/client.py")
    client.write_text(f"{client.read_text(encoding='utf-8')}\n{EVALUATE}", encoding="utf-8")
    with pytest.raises(UserError, match=told):
        open_project(folder, devices=1)


EVALUATE = """
@app.evaluate()
def evaluate(msg, context):
    return reply(msg, None, **{"loss": 1.0, "num-examples": 5})
"""


def test_an_old_server_that_waits_for_more_clients_than_devices_is_refused() -> None:
    with pytest.raises(UserError, match=r"waits for 2 nodes, and the fleet has 1; lower its min_available_clients"):
        open_project(PROJECTS / "torch_clients", devices=1)


def test_a_strategy_that_sets_a_proximal_term_is_told_so(tmp_path: Path) -> None:
    task = open_project(write_project(tmp_path))
    with pytest.raises(OwnTrainingError, match=r"sets training\.proximal = 0.1, which a Flower project cannot use"):
        trained(task, 0, task.initial(), job=Job(steps=1, batch=0, proximal=0.1))


@pytest.mark.parametrize("place", ["app", "function"])
@pytest.mark.parametrize("mod", ["secagg_mod", "secaggplus_mod"])
def test_secure_aggregation_is_refused_by_name(mod: str, place: str, tmp_path: Path) -> None:
    folder = write_project(tmp_path, app=f"mods=[{mod}]" if place == "app" else "")
    [client] = folder.glob("*/client.py")
    text = client.read_text(encoding="utf-8").replace("@app.train()", f"@app.train(mods=[{mod}])" * (place != "app"))
    text = text if place != "app" else text.replace("\ndef train", "@app.train()\ndef train")
    client.write_text(f"from flwr.client.mod import {mod}\n{text}", encoding="utf-8")
    with pytest.raises(UserError, match=f"{mod} masks updates .* remove it"):
        open_project(folder)


def test_a_secure_workflow_is_refused_by_name(tmp_path: Path) -> None:
    main = """from flwr.server import LegacyContext, ServerConfig
    from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
    context = LegacyContext(context=context, config=ServerConfig(num_rounds=1))
    DefaultWorkflow(fit_workflow=SecAggPlusWorkflow(3, 2))(grid, context)"""
    with pytest.raises(UserError, match="SecAggPlusWorkflow masks updates"):
        open_project(write_project(tmp_path, main=main))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("import not_there", r"server:app: .*No module named 'not_there'; install it.*pip install -e"),
        ("1 / 0", r"server:app cannot be imported: .*server\.py:1.*ZeroDivisionError"),
        ("def broken(:", r"cannot be imported: SyntaxError.*server\.py, line 1"),
        ("raise SystemExit(3)", r"server\.py:1.*SystemExit: 3"),
    ],
)  # fmt: skip
def test_an_import_error_names_file_and_line(line: str, told: str, tmp_path: Path) -> None:
    folder = write_project(tmp_path)
    [server] = folder.glob("*/server.py")
    server.write_text(f"{line}\n{server.read_text(encoding='utf-8')}", encoding="utf-8")
    with pytest.raises(UserError, match=told):
        open_project(folder)


@pytest.mark.parametrize(
    ("component", "told"),
    [
        ("nowhere.server:app", "No module named 'nowhere'; correct \\[tool.flwr.app.components\\]"),
        ("client:app", "app is a ClientApp; it must be a ServerApp"),
        ("server:main_app", "has no main_app; it must be a ServerApp"),
    ],
)
def test_a_wrong_component_is_told(component: str, told: str, tmp_path: Path) -> None:
    folder = write_project(tmp_path)
    file = folder / "pyproject.toml"
    package = next(folder.glob("*/server.py")).parent.name
    wanted = component if "." in component else f"{package}.{component}"
    text = file.read_text(encoding="utf-8").replace(f"{package}.server:app", wanted)
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=told):
        open_project(folder)


def test_the_number_of_samples_must_be_that_of_the_devices(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"task\.samples has 2 numbers, and there are 3 devices"):
        open_project(write_project(tmp_path, main=START), samples=(1, 2))
