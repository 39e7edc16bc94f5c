"""What an aggregation rule sees and may answer.

A strategy is deterministic and knows no socket and no clock: same events in, same decisions out. Two sentences
carry the semantics: **a device absent from** ``Decision.train`` **keeps doing what it does** (an idle one stays
held), and **a busy device named in it is restarted**.
"""

from __future__ import annotations

import abc
from typing import ClassVar

from aggregator.strategy.decision import Decision
from aggregator.strategy.server import Server
from testbed.wire.messages import Job, Update


class Strategy(abc.ABC):
    """Base of all rules. Parameters are dataclass fields made with ``testbed.common.parameters.param``."""

    hands_out_final_model: ClassVar[bool] = False
    """Whether the run ends only when every device has the final model."""
    grants: ClassVar[bool] = False
    """Whether devices upload only when, and as fast as, the rule says (``GrantRates``): it needs a radio cell."""
    unrepeatable: ClassVar[str] = ""
    """Why a strict replay, which repeats the order of updates at the aggregator, would not do; empty: it would."""
    keeps_old_base: ClassVar[bool] = True
    """Whether its devices may go on with the model that they have, where a download is lost."""

    @property
    def resumable(self) -> bool:
        """Whether a run can go on from a checkpoint, which has nothing of what is on the devices."""
        return True

    @classmethod  # noqa: B027  most strategies need only numpy
    def preload(cls) -> None:
        """Import what takes seconds to import. Called once, in the process that all others are forked from."""

    def check(self, devices: int) -> None:  # noqa: B027  most rules fit every fleet
        """Raise ``testbed.common.parameters.ParameterError`` for what does not fit a fleet of so many devices."""

    @abc.abstractmethod
    def on_start(self, server: Server) -> Decision:
        """The run begins with the devices that are present."""

    @abc.abstractmethod
    def on_join(self, device: str, server: Server) -> Decision:
        """A device came, or came back."""

    @abc.abstractmethod
    def on_leave(self, device: str, server: Server) -> Decision:
        """A device is gone; what it was doing is lost."""

    @abc.abstractmethod
    def on_update(self, update: Update, server: Server) -> Decision:
        """An update with a valid ticket arrived; its device is idle now."""

    @abc.abstractmethod
    def on_ready(self, device: str, server: Server) -> Decision:
        """A device is idle without having delivered: its update was given up, or was not fit to be used."""

    def on_ask(self, device: str, server: Server) -> Decision:
        """A device has computed and waits for a grant."""
        return Decision()

    def last_applied(self, device: str) -> int | None:
        """The last ticket of a device that went into the model (0: none), where it uploads differences to that."""
        return None

    def on_wake(self, server: Server) -> Decision:
        """The moment asked for by ``wake_at`` has come."""
        return Decision()

    def job(self, device: str, server: Server) -> Job:
        """Local work for the next dispatch to ``device``. Override for adaptive local work."""
        return server.job
