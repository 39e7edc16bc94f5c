"""The base class of a strategy.

A strategy is deterministic and uses no socket and no clock: the same events lead to the same decisions. Two sentences
define the meaning of a decision: **a device that is not in** ``Decision.train`` **continues what it does** (an idle one
stays idle), and **a busy device that is in it is restarted**.
"""

from __future__ import annotations

import abc
from typing import ClassVar

from aggregator.strategy.decision import Decision
from aggregator.strategy.server import Server
from testbed.wire.messages import Update
from testbed.wire.training_job import Job


class Strategy(abc.ABC):
    """Base of all strategies. Parameters are dataclass fields made with ``testbed.common.parameters.param``."""

    broadcasts_final_model: ClassVar[bool] = False
    """Whether the run ends only when every device has the final model."""
    grants: ClassVar[bool] = False
    """Whether devices upload only after a grant, at its rate (``GrantRates``). This needs a radio cell."""
    unrepeatable: ClassVar[str] = ""
    """Why a strict replay, which repeats the order of updates, cannot repeat a run; empty if it can."""
    own_selection: ClassVar[str] = ""
    """How it selects devices itself, so that ``in_flight`` and ``sampling`` are refused; empty: as its pace does."""
    sets_steps: ClassVar[bool] = False
    """Whether it sets the local steps of every job itself, so that ``training.epochs`` would have no effect."""

    @property
    def keeps_updates(self) -> bool:
        """Whether devices keep their last update after its upload, because the strategy may ask for it again."""
        return False

    @property
    def keeps_old_base(self) -> bool:
        """Whether its devices may train on the model that they have if a download is lost."""
        return True

    @property
    def resumable(self) -> bool:
        """Whether a run can resume from a checkpoint, which contains no state of the devices."""
        return True

    @property
    def uses_progress(self) -> bool:
        """Whether it uses the progress that heartbeats report (``Server.remaining``), which is then recorded."""
        return False

    @classmethod  # noqa: B027  most strategies need only numpy
    def preload(cls) -> None:
        """Import what takes seconds to import. Called once, in the template."""

    def check(self, devices: int) -> None:  # noqa: B027  most strategies fit every fleet
        """Raise ``testbed.common.parameters.ParameterError`` if a parameter does not fit this number of devices."""

    @abc.abstractmethod
    def on_start(self, server: Server) -> Decision:
        """The run begins with the devices that are present."""

    @abc.abstractmethod
    def on_join(self, device: str, server: Server) -> Decision:
        """A device has joined, for the first time or again."""

    @abc.abstractmethod
    def on_leave(self, device: str, server: Server) -> Decision:
        """A device has left; its job is lost."""

    @abc.abstractmethod
    def on_update(self, update: Update, server: Server) -> Decision:
        """An update with a valid ticket has arrived; its device is idle now."""

    @abc.abstractmethod
    def on_ready(self, device: str, server: Server) -> Decision:
        """A device is idle, but its update was given up or cannot be used."""

    def on_ask(self, device: str, server: Server) -> Decision:
        """A device has finished computing and waits for a grant."""
        return Decision()

    def last_applied(self, device: str) -> int | None:
        """Return the last applied ticket of a device, 0 for none; None unless devices upload differences to it."""
        return None

    def on_wake(self, server: Server) -> Decision:
        """The moment asked for by ``wake_at`` has come."""
        return Decision()

    def job(self, device: str, server: Server) -> Job:
        """Return the job for the next dispatch to ``device``. Override it for adaptive local work."""
        return server.job
