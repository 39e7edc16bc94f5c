"""What a name in ``task`` stands for. Nothing here imports torch: the launcher checks tasks without it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from testbed.learning.tasks.setting import Setting
from testbed.wire.training_job import Job

if TYPE_CHECKING:
    from testbed.learning.training.task import Task


class TaskEntry(ABC):
    """A task before it is opened. It is a dataclass; its fields are its parameters."""

    @abstractmethod
    def open(self, setting: Setting) -> Task:
        """Return the task, ready for training. Raises UserError or ParameterError."""

    @abstractmethod
    def check(self, setting: Setting) -> None:
        """Check what can be checked without torch, before any process starts. Raises UserError or ParameterError."""

    def located(self, folder: Path) -> Self:
        """Return the task with absolute paths instead of paths relative to ``folder``, that of the profile."""
        return self

    def data_state(self) -> str:
        """Return a digest of the state of the user's files: a warm template has read them in an earlier state."""
        return ""

    @classmethod
    def trains_as_a_whole(cls) -> bool:
        """Whether a job has one deadline, at its end."""
        return False

    @classmethod
    def check_job(cls, job: Job) -> tuple[str, str] | None:
        """Return a key of ``[training]`` that does not fit this task, and why; None if all do."""
        return None

    @classmethod
    def code_of(cls, parameters: Mapping[str, Any]) -> tuple[Path, ...]:
        """Return the folders of code that parameters name, that is not ours, and on which the time of a step depends.

        Its modules are imported already.
        """
        return ()
