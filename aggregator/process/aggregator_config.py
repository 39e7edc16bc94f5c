"""What the launcher passes to the aggregator process."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.emulation.recorded import PreparedReplay
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment
from testbed.wire.credentials import AllowList


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """A run that was interrupted is to go on from its checkpoint."""

    at: float
    """Emulated seconds: how far it had come by then."""
    dead: frozenset[str] = frozenset()
    """Whom the script had killed by then: nobody waits for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorConfig:
    experiment: Experiment
    devices: tuple[DeviceSpec, ...]
    dilation: float
    """Host seconds per emulated second."""
    demand: float
    """Share asked for of the core that is asked for most."""
    pressure: float | None
    """Share of the time in which a process waited for a core (PSI), just before the run."""
    canaries: tuple[str, ...]
    core: int
    endpoint: str
    run_folder: str
    status_file: str
    allow: AllowList | None = None
    """None: anybody is who he says that he is."""
    replay: PreparedReplay | None = None
    resume: Resumption | None = None
