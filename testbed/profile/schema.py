"""What a profile may say: one dataclass per table, one field per key, with default, range and meaning.

``testbed.loading.profile_loader`` makes these of TOML files and overrides; ``testbed.profile.fleet`` makes concrete devices of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testbed.common.parameters import param
from testbed.profile.power import Power, Radio
from testbed.profile.radio import Cell
from testbed.wire.endpoints import Transport
from testbed.wire.messages import Job

DEFAULT_TASK = "digits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """One direction of a link."""

    mbit: float | None = param(None, "rate in Mbit/s (10⁶ bit); unset: no limit", above=0)
    delay: float = param(0.0, "base delay in seconds, one way", at_least=0)
    jitter: float = param(0.0, "seconds added to the delay: |N(0, jitter)|", at_least=0)
    spread: float = param(0.0, "σ of the transfer time bytes ÷ rate × N(1, σ)", at_least=0, at_most=1)
    drop: float = param(0.0, "probability that a transfer is lost", at_least=0, below=1)
    trace: str | None = param(
        None, "file with a rate that changes (t_s,mbps), instead of mbit; relative to the file that names it"
    )
    trace_offset: float | None = param(
        None,
        "seconds into the trace at which the run begins; unset: each device's own place, drawn by the seed",
        at_least=0,
    )

    @property
    def has_rate(self) -> bool:
        return self.mbit is not None or self.trace is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProfile:
    """A kind of access network, both directions."""

    title: str = param("", "what it is")
    source: str = param("", "where the figures come from")
    up: Direction = param(Direction(), "device to aggregator")
    down: Direction = param(Direction(), "aggregator to device")
    power: Radio | None = param(None, "what its radio draws")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """From a moment on, a device computes at a multiple of its own speed."""

    at: float = param(meaning="emulated seconds since the run, or the period, began", at_least=0)
    speed: float = param(meaning="multiple of the device's speed: 0.5 takes twice as long", above=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast a device computes: one of four ways to say it, and how that changes with time."""

    seconds_per_sample: float | dict[str, float] | None = param(
        None, "seconds to train on one sample; or a table of them by model, task or task:model", above=0
    )
    clock_hz: float | None = param(None, "cycles per second; the speed is cycles_per_sample ÷ clock_hz", above=0)
    cycles_per_sample: float | dict[str, float] | None = param(
        None, "cycles to train on one sample; default: FLOPs of the forward pass ÷ 4, as ASAFL has it", above=0
    )
    flop_per_second: float | None = param(None, "the speed is FLOPs of forward and backward pass ÷ this", above=0)
    of_host: float | None = param(None, "share of this host's core, which is calibrated first", above=0, at_most=1)
    schedule: tuple[Phase, ...] = param((), "phases of another speed: a phone that heats up")
    schedule_period: float | None = param(None, "the schedule begins anew after so many seconds", above=0)


WAYS = ("seconds_per_sample", "clock_hz", "flop_per_second", "of_host")
"""Keys of which a device has exactly one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile(Speed):
    """A kind of device."""

    title: str = param("", "what it is")
    source: str = param("", "where the figures come from")
    throttle: str = param(
        "pace",
        "pace: deadlines; cgroup: a real CPU quota; signal: SIGSTOP and SIGCONT; none: as fast as the host",
        choices=("pace", "cgroup", "signal", "none"),
    )
    power: Power | None = param(None, "power model")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGroup(Speed):
    """Devices of one kind on one kind of link, and how they misbehave. A speed given here overrides the profile's."""

    profile: str | DeviceProfile = param(meaning="a name from profiles/devices, a path, or a table")
    link: str | LinkProfile = param("ethernet", "a name from profiles/links, a path, or a table")
    count: int = param(1, "how many of them", at_least=1, at_most=10_000)
    name: str | None = param(None, "what they are called, with a number behind; default: the profile's name")
    drop: float | None = param(None, "drop probability, both directions; overrides the link's", at_least=0, below=1)
    suspend: float = param(0.0, "probability that a job is suspended", at_least=0, at_most=1)
    suspend_max: float = param(5.0, "longest suspension in seconds (uniform from 0)", above=0)
    phi: float | None = param(
        None,
        "φ: probability that an upload gets through, tried once per tick: drop 1 − φ upwards, on_drop next_tick",
        above=0,
        at_most=1,
    )
    on_drop: str = param(
        "retry", "what a device does when its upload is lost", choices=("retry", "next_tick", "give_up")
    )
    tick: float | None = param(
        None, "seconds between attempts with on_drop = next_tick; default: the rule's interval", above=0
    )
    on_lost_download: str | None = param(
        None,
        "what a device does when a download is lost: wait until it is sent again, or train on with the model it has;"
        " default: old_base with a rule that has an interval (eq. 1 of AUDG), else wait",
        choices=("wait", "old_base"),
    )
    suspend_by: str = param(
        "hold",
        "hold: computing stands still, heartbeats go on; signal: the process is really stopped (SIGSTOP)",
        choices=("hold", "signal"),
    )
    distance: float | None = param(
        None, "metres to the server, in a [cell]; unset: each device's own place in it, drawn by the seed", above=0
    )
    availability: str | None = param(
        None, "file with when a device is there (t_s,available), relative to the experiment; away, it is suspended"
    )
    availability_offset: float | None = param(
        None,
        "seconds into that file at which the run begins; unset: each device's own place, drawn by the seed",
        at_least=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWhen:
    """The run ends at whichever of these comes first."""

    seconds: float | None = param(None, "emulated seconds", above=0)
    versions: int | None = param(None, "global versions", at_least=1)
    target_accuracy: float | None = param(None, "accuracy on the test data", above=0, at_most=1)
    patience: int | None = param(None, "scores in a row whose loss is not a new lowest; early stopping", at_least=1)
    improvement: float = param(0.0, "a loss must be lower by more than this to count as a new lowest", at_least=0)
    delivery: float | None = param(
        None,
        "longest time after the end in which a rule hands the final model to every device; unset: no limit",
        at_least=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How often models are scored."""

    every: float = param(1.0, "least seconds between two evaluated versions", at_least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Heartbeats. A lost download is noticed by the next one."""

    beat: float = param(1.0, "seconds between heartbeats", at_least=0.05)
    timeout: float = param(10.0, "a device silent for this many seconds has left", above=0)
    restart: int | str = param(
        "never",
        "whether a device whose process dies unasked is forked anew: never, always, or so many times;"
        " in a strict replay, never",
        at_least=0,
        choices=("never", "always"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """How often the state of a run is saved, so that ``resume`` can go on from it; and at its end, unless never."""

    seconds: float | None = param(30.0, "emulated seconds from one to the next", above=0)
    versions: int | None = param(None, "versions from one to the next, if that is sooner", at_least=1)
    never: bool = param(False, "no checkpoints at all")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedEvent:
    """Something that befalls devices at a moment that is known before the run."""

    at: float = param(meaning="emulated seconds since the run began", at_least=0)
    device: str = param(meaning="a device's name, a group's name for all in it, or * for the whole fleet")
    do: str = param(
        meaning="suspend: it hangs; kill: SIGKILL; rejoin: it is forked anew; rate, speed, drop: they change",
        choices=("suspend", "kill", "rejoin", "rate", "speed", "drop"),
    )
    seconds: float | None = param(
        None,
        "suspend: how long it hangs; rate, speed, drop: how long it lasts; unset: until the next such event",
        above=0,
    )
    value: float | None = param(
        None, "rate, speed: multiple of what the profile says; drop: probability, both directions", at_least=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The delays, drops and suspensions of a recorded run, met again."""

    trace: str | None = param(None, "a run folder, or its trace.jsonl; unset: nothing is replayed")
    mode: str = param(
        "schedule",
        "schedule: the same delays, any rule; strict: also the same order of arrivals, for the rule that was recorded",
        choices=("schedule", "strict"),
    )
    end: str = param(
        "loop",
        "when a device has used up its recorded jobs: begin anew, end the run, or draw from them",
        choices=("loop", "stop", "resample"),
    )
    use: str = param(
        "obtained", "computing as the recorded run got it, or as it was asked for", choices=("obtained", "asked")
    )
    devices: str = param(
        "name",
        "who meets whose recording: by name; by order; or, same: by name, and nobody may be left over",
        choices=("name", "order", "same"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Everything a run is made of."""

    name: str = param("", "name of the run folder; default: the file's name")
    seed: int = param(
        0, "seed of batches and faults, and of data and model unless they have their own", at_least=0, below=2**63
    )
    data_seed: int | None = param(
        None, "seed of the data split and of generated data; unset: seed", at_least=0, below=2**63
    )
    model_seed: int | None = param(None, "seed of the initial model; unset: seed", at_least=0, below=2**63)
    task: str | dict[str, Any] = param(DEFAULT_TASK, "a task's name, or a table with name and parameters")
    strategy: str | dict[str, Any] = param(meaning="a rule's name, module:Class, or a table with name and parameters")
    dilation: float | str = param(
        1.0, "host seconds per emulated second; auto: 1, or what this host keeps up with", above=0, choices=("auto",)
    )
    training: Job = param(Job(), "local training")
    stop: StopWhen = param(StopWhen(seconds=60.0), "when the run ends")
    devices: tuple[DeviceGroup, ...] = param(meaning="the fleet: a list of groups of devices")
    cell: Cell | None = param(None, "the radio cell whose band the uplinks share, for rules that grant rates (asafl)")
    transport: Transport = param(Transport(), "how processes talk")
    evaluation: Evaluation = param(Evaluation(), "how often models are scored")
    presence: Presence = param(Presence(), "heartbeats")
    checkpoint: Checkpoint = param(Checkpoint(), "how often the run is saved")
    replay: Replay = param(Replay(), "a recorded run, met again")
    events: tuple[ScriptedEvent, ...] = param((), "what befalls devices at given moments, whatever the rule")
    compress: bool = param(False, "pack trace.jsonl (gzip) when the run is over and its results are written")

    @property
    def task_name(self) -> str:
        return name_and_parameters(self.task)[0]

    @property
    def task_parameters(self) -> dict[str, Any]:
        return name_and_parameters(self.task)[1]

    @property
    def strategy_name(self) -> str:
        return name_and_parameters(self.strategy)[0]

    @property
    def strategy_parameters(self) -> dict[str, Any]:
        return name_and_parameters(self.strategy)[1]


def name_and_parameters(value: str | dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Of a task or a rule, which a profile gives as a name or as a table."""
    if isinstance(value, str):
        return value, {}
    return value["name"], {key: item for key, item in value.items() if key != "name"}
