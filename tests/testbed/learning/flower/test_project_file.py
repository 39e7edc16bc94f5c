"""A project's pyproject.toml is read without flwr, and every mistake in it is one line with the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.common.errors import UserError
from testbed.learning.flower import project_file

APP = """
[project]
name = "mine"
[tool.flwr.app.components]
serverapp = "mine.server_app:app"
clientapp = "mine.client_app:app"
[tool.flwr.app.config]
lr = 0.1
rounds = 3
model.width = 8
model.deep = true
"""


def project(folder: Path, text: str = APP) -> project_file.FlowerProject:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return project_file.read(folder)


def test_a_project_has_two_apps_and_a_flat_configuration(tmp_path: Path) -> None:
    found = project(tmp_path)
    assert (found.name, found.server_app, found.client_app) == ("mine", "mine.server_app:app", "mine.client_app:app")
    assert found.run_config == {"lr": 0.1, "rounds": 3, "model.width": 8, "model.deep": True}


def test_the_profile_may_change_the_configuration(tmp_path: Path) -> None:
    changed = project_file.merged(project(tmp_path), {"lr": 1, "model": {"width": 16}})
    assert changed == {"lr": 1, "rounds": 3, "model.width": 16, "model.deep": True}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"speed": 1}, r"speed is not in \[tool.flwr.app.config\] .* \(there: lr, model.deep, model.width, rounds\)"),
        ({"rounds": "many"}, "rounds is 'many'; it must be of the type of 3"),
        ({"model": {"deep": 1}}, "model.deep is 1; it must be of the type of True"),
        ({"lr": [1]}, r"lr is \[1\]; it must be a number, a text, true or false"),
    ],
)
def test_a_change_that_the_project_would_not_understand_is_told(
    changes: dict[str, object], told: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=told):
        project_file.merged(project(tmp_path), changes)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[project]\nname = 'x'", r"has no \[tool.flwr.app\]; a Flower project has \[tool.flwr.app.components\]"),
        ("[tool.flwr.app]\npublisher = 'x'", "components] has no serverapp"),
        (APP.replace("clientapp", "client"), "components] has no clientapp"),
        (APP.replace("mine.client_app:app", "mine.client_app"), "must be module:object"),
        ("[tool", "cannot be read: "),
        ("tool = 3", "tool is 3; it must be a table"),
        (APP + "[tool.flwr.app.config.many]\nlayers = [1, 2]", r"many.layers is \[1, 2\]; it must be a number"),
    ],
)
def test_a_folder_that_is_no_flower_project_is_told(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=told) as error:
        project(tmp_path, text)
    assert "\n" not in str(error.value)


def test_a_missing_folder_or_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no pyproject\.toml; name the folder of a Flower project"):
        project_file.read(tmp_path)
    with pytest.raises(UserError, match="there is no such folder"):
        project_file.read(tmp_path / "nowhere")


FEDERATIONS = """
[tool.flwr.federations]
default = "local"
[tool.flwr.federations.local]
options.backend.client-resources.num-cpus = 2
options.backend.client-resources.num-gpus = GPUS
[tool.flwr.federations.large]
options.backend.client-resources.num-gpus = 1
"""


def test_a_demand_for_gpus_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"federation local gives each client 0\.2 GPUs.*set num-gpus = 0"):
        project(tmp_path, APP + FEDERATIONS.replace("GPUS", "0.2"))
    assert project(tmp_path, APP + FEDERATIONS.replace("GPUS", "0")).name == "mine"
