"""The task ``flower``: a Flower project, unmodified (docs/flower.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from testbed.common.parameters import param
from testbed.learning.flower import flower_version, project_file
from testbed.learning.flower.project_file import FlowerProject
from testbed.learning.tasks.setting import Setting
from testbed.learning.tasks.task_entry import TaskEntry
from testbed.wire.training_job import Job

if TYPE_CHECKING:
    from testbed.learning.training.task import Task

_USED = ("steps", "epochs", "batch", "lr")
"""Keys of ``[training]`` that mean something here; ``lr`` is for strategies whose equations contain it."""


@dataclass(kw_only=True)
class FlowerApp(TaskEntry):
    """A Flower project (flwr): its ClientApp trains, its ServerApp gives the first model and the messages."""

    project: str = param(
        ".",
        "the folder of the project, with its pyproject.toml, from that of the profile; 'flower:PATH' is short for it",
    )
    run_config: dict[str, Any] = param(
        default_factory=dict, meaning="other values for keys of [tool.flwr.app.config] of the project"
    )
    samples: tuple[int, ...] = param(
        (), "samples of each device, or one number for all; empty: each client trains once, and tells", at_least=1
    )
    evaluated_clients: int = param(
        10, "clients whose evaluation is a score, if the ServerApp has no evaluate function", at_least=1
    )
    accuracy: str = param("accuracy", "the project's name of the metric that is the accuracy")
    patience: float = param(
        120.0, "CPU seconds after which a call of the project is interrupted: a training, for instance", above=0
    )

    def open(self, setting: Setting) -> Task:
        project = self._project()
        from testbed.learning.flower import no_network

        no_network.set_offline()
        from testbed.learning.flower.project_opening import OpeningRequest, open_project

        request = OpeningRequest(
            project=project,
            run_config=project_file.merged(project, self.run_config),
            devices=setting.devices,
            samples=self.samples,
            evaluated_clients=self.evaluated_clients,
            accuracy=self.accuracy,
            patience=self.patience,
            data_seed=setting.data_seed,
            model_seed=setting.model_seed,
        )
        return open_project(request)

    def located(self, folder: Path) -> Self:
        return replace(self, project=str((folder / self.project).resolve()))

    def check(self, setting: Setting) -> None:
        project_file.merged(self._project(), self.run_config)

    def _project(self) -> FlowerProject:
        """Read the project. Raises UserError if it is none, or flwr is missing."""
        found = project_file.read(Path(self.project))
        flower_version.check()
        return found

    @classmethod
    def check_job(cls, job: Job) -> tuple[str, str] | None:
        if job.batch:
            return "batch", "must be 0 for a Flower project: a step is one call of a client, with all its samples"
        usual = Job()
        if job.patience != usual.patience:
            return "patience", "has no effect on a Flower project; set task.patience, for every call of its apps"
        for field in fields(Job):
            if field.name not in _USED and getattr(job, field.name) != getattr(usual, field.name):
                return field.name, "has no effect on a Flower project; set task.run_config, as the project reads it"
        return None

    @classmethod
    def code_of(cls, parameters: Mapping[str, Any]) -> tuple[Path, ...]:
        return (Path(parameters["project"]),)
