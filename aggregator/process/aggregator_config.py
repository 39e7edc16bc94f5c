"""What the launcher passes to the aggregator process."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.emulation.recorded import PreparedReplay
from testbed.host.priority import Policy
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment
from testbed.wire.credentials import AllowList


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """How an interrupted run continues from its checkpoint."""

    at: float
    """Emulated seconds of the checkpoint."""
    dead: frozenset[str] = frozenset()
    """Devices that the script had killed by then. The run starts without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorConfig:
    experiment: Experiment
    devices: tuple[DeviceSpec, ...]
    dilation: float
    """Host seconds per emulated second."""
    demand: float
    """Share of the busiest core that the run needs."""
    pressure: float | None
    """Share of the time in which processes waited for a core (PSI), just before the run."""
    survey_age: float = 0.0
    """Seconds since the survey was measured; 0 if it was measured for this run."""
    canaries: tuple[str, ...]
    core: int
    policy: Policy = Policy.NICE
    """How the process gets its core when it wakes."""
    endpoint: str
    run_folder: str
    status_file: str
    allow: AllowList | None = None
    """None disables authentication."""
    replay: PreparedReplay | None = None
    resume: Resumption | None = None
