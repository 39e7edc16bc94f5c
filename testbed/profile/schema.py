"""The keys of a profile: one dataclass for each table, one field for each key, with default, range and meaning.

``testbed.loading.profile_loader`` builds these objects from TOML files and overrides; ``testbed.profile.fleet`` derives
the devices of a run from them. ``run_testbed.py list keys`` shows the meanings.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.common.number_limits import (
    LEAST_DILATION,
    LEAST_MBIT,
    LEAST_MULTIPLE,
    LONGEST,
    MOST_DILATION,
    MOST_MBIT,
    MOST_MULTIPLE,
    SHORTEST,
)
from testbed.common.parameters import Named, TomlTable, param
from testbed.profile.power import Power, Radio
from testbed.profile.radio import Cell
from testbed.wire.compression_method import FORMS, NONE
from testbed.wire.endpoints import Transport
from testbed.wire.training_job import Job

DEFAULT_TASK = "digits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """One direction of a link."""

    mbit: float | None = param(
        None, "rate in Mbit/s (10⁶ bit/s); unset: no limit", at_least=LEAST_MBIT, at_most=MOST_MBIT
    )
    delay: float = param(0.0, "constant one-way delay in seconds", at_least=0, at_most=LONGEST)
    jitter: float = param(0.0, "random seconds added to the delay: |N(0, jitter)|", at_least=0, at_most=LONGEST)
    spread: float = param(0.0, "σ of the transfer time: bytes ÷ rate × N(1, σ)", at_least=0, at_most=1)
    drop: float = param(0.0, "probability that a transfer is lost", at_least=0, below=1)
    trace: str | None = param(
        None, "file with a recorded rate (columns t_s,mbps), instead of mbit; path relative to this profile"
    )
    trace_offset: float | None = param(
        None,
        "position in the trace, in seconds, at which the run begins; unset: random for each device",
        at_least=0,
        at_most=LONGEST,
    )

    @property
    def has_rate(self) -> bool:
        return self.mbit is not None or self.trace is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProfile:
    """A kind of access network, in both directions."""

    title: str = param("", "description of the link")
    source: str = param("", "origin of the figures")
    up: Direction = param(Direction(), "device to aggregator")
    down: Direction = param(Direction(), "aggregator to device")
    power: Radio | None = param(None, "power of its radio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """From a moment on, a device computes at a multiple of its normal speed."""

    at: float = param(
        meaning="emulated seconds since the start of the run, or of the period", at_least=0, at_most=LONGEST
    )
    speed: float = param(
        meaning="multiple of the device's normal speed: at 0.5, computing takes twice as long",
        at_least=LEAST_MULTIPLE,
        at_most=MOST_MULTIPLE,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast a device computes (exactly one of four keys), and how its speed changes with time."""

    seconds_per_sample: float | dict[str, float] | None = param(
        None,
        "seconds to train on one sample: a number, or a table by model, task or task:model",
        at_least=1e-9,
        at_most=1e6,
    )
    clock_hz: float | None = param(
        None, "clock in Hz; one sample takes cycles_per_sample ÷ clock_hz seconds", at_least=1, at_most=1e12
    )
    cycles_per_sample: float | dict[str, float] | None = param(
        None,
        "cycles to train on one sample; default: FLOPs of the forward pass ÷ 4, as in ASAFL",
        at_least=1,
        at_most=1e15,
    )
    flop_per_second: float | None = param(
        None, "FLOP/s; one sample takes (FLOPs of forward and backward pass) ÷ this seconds", at_least=1e3, at_most=1e18
    )
    of_host: float | None = param(
        None, "speed as a share of one core of this host, which is measured before the run", at_least=1e-6, at_most=1
    )
    schedule: tuple[Phase, ...] = param((), "phases with another speed, such as a phone that becomes hot")
    schedule_period: float | None = param(
        None, "the schedule repeats after this many seconds", at_least=SHORTEST, at_most=LONGEST
    )


SPEED_KEYS = ("seconds_per_sample", "clock_hz", "flop_per_second", "of_host")
"""A device has exactly one of these keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile(Speed):
    """A kind of device."""

    title: str = param("", "description of the device")
    source: str = param("", "origin of the figures")
    derived_speeds: tuple[str, ...] = param(
        (),
        "keys of seconds_per_sample whose values were computed from the FLOPs of a network: neither measured nor timed",
    )
    throttle: str = param(
        "pace",
        "how computing is slowed down. pace: by deadlines; cgroup: by a CPU quota; signal: by SIGSTOP and SIGCONT;"
        " none: not at all",
        choices=("pace", "cgroup", "signal", "none"),
    )
    power: Power | None = param(None, "power model")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGroup(Speed):
    """Devices with the same profile, link and faults. A speed given here overrides that of the profile."""

    profile: str | DeviceProfile = param(meaning="a name from profiles/devices, a path, or a table")
    link: str | LinkProfile = param("ethernet", "a name from profiles/links, a path, or a table")
    count: int = param(1, "number of devices", at_least=1, at_most=10_000)
    name: str | None = param(None, "name of the devices, followed by a number; default: the name of the profile")
    drop: float | None = param(
        None, "probability that a transfer is lost, in both directions; overrides that of the link", at_least=0, below=1
    )
    suspend: float = param(0.0, "probability that a job is suspended", at_least=0, at_most=1)
    suspend_max: float = param(
        5.0, "longest suspension in seconds; the duration is uniform between 0 and this", above=0, at_most=LONGEST
    )
    phi: float | None = param(
        None,
        "φ: probability that an upload succeeds, with one attempt per tick; sets drop = 1 − φ for uploads and"
        " on_drop = next_tick",
        at_least=1e-6,
        at_most=1,
    )
    on_drop: str = param(
        "retry",
        "after a lost upload. retry: send again at once; next_tick: send again at the next tick; give_up: no retry",
        choices=("retry", "next_tick", "give_up"),
    )
    tick: float | None = param(
        None,
        "seconds between attempts with on_drop = next_tick; default: the interval of the strategy",
        at_least=SHORTEST,
        at_most=LONGEST,
    )
    on_lost_download: str | None = param(
        None,
        "after a lost download. wait: wait until it is sent again; old_base: train again from the previous model;"
        " default: old_base if the strategy has an interval (eq. 1 of AUDG) and on_drop is not give_up, else wait",
        choices=("wait", "old_base"),
    )
    suspend_by: str = param(
        "hold",
        "hold: computing pauses, heartbeats continue; signal: the process is stopped by SIGSTOP",
        choices=("hold", "signal"),
    )
    compress_updates: str | None = param(
        None, f"how these devices compress their updates: {FORMS}; unset: as compress_updates of the experiment says"
    )
    distance: float | None = param(
        None, "metres to the server in a [cell]; unset: random for each device", above=0, at_most=1e6
    )
    availability: str | None = param(
        None,
        "file with the recorded availability of a device (columns t_s,available); path relative to this profile;"
        " a device that is away is suspended",
    )
    availability_offset: float | None = param(
        None,
        "position in that file, in seconds, at which the run begins; unset: random for each device",
        at_least=0,
        at_most=LONGEST,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWhen:
    """The run ends when the first of these conditions is met."""

    seconds: float | None = param(None, "emulated seconds", above=0, at_most=LONGEST)
    versions: int | None = param(None, "global versions", at_least=1)
    target_accuracy: float | None = param(None, "accuracy on the test data", above=0, at_most=1)
    patience: int | None = param(
        None, "early stopping: number of consecutive scores without a new lowest loss", at_least=1
    )
    improvement: float = param(0.0, "a loss is a new lowest only if it is lower by more than this", at_least=0)
    delivery: float | None = param(
        None,
        "seconds after the end in which a strategy may send the final model to every device; unset: no limit",
        at_least=0,
        at_most=LONGEST,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateBound:
    """What the aggregator does with an update before the strategy gets it."""

    clip: float | None = param(
        None,
        "largest Euclidean norm of an update, against a faulty or hostile device; unset: no bound, as in the papers",
        above=0,
        at_most=1e18,
    )
    on_clip: str = param(
        "scale",
        "an update with a larger norm. scale: it is scaled down to clip; refuse: it is rejected",
        choices=("scale", "refuse"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorSettings(UpdateBound):
    """The bound on updates, and the patience with the strategy."""

    patience: float = param(
        120.0,
        "host seconds that one call of the strategy may take, without those in which it waits for a core; then the run"
        " fails",
        above=0,
        at_most=LONGEST,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How often models are scored."""

    every: float = param(1.0, "minimum seconds between two evaluated versions", at_least=0, at_most=LONGEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Heartbeats. The next heartbeat after a lost download reveals the loss."""

    heartbeat: float = param(1.0, "seconds between heartbeats", at_least=0.05, at_most=LONGEST)
    timeout: float = param(10.0, "a device that sends nothing for this many seconds has left", above=0, at_most=LONGEST)
    restart: int | str = param(
        "never",
        "whether a device whose process dies unexpectedly is restarted: never, always, or at most this many times;"
        " never in a strict replay",
        at_least=0,
        choices=("never", "always"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """How often the state of a run is saved for ``resume``. It is also saved at the end of the run."""

    seconds: float | None = param(30.0, "emulated seconds between two checkpoints", above=0, at_most=LONGEST)
    versions: int | None = param(None, "versions between two checkpoints, if that is sooner", at_least=1)
    never: bool = param(False, "save no checkpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedEvent:
    """An event that happens to devices at a fixed moment."""

    at: float = param(meaning="emulated seconds since the start of the run", at_least=0, at_most=LONGEST)
    device: str = param(meaning="name of a device, name of a group for all its devices, or * for the whole fleet")
    do: str = param(
        meaning="suspend: the device is suspended; kill: its process is killed; rejoin: it is started again;"
        " rate, speed, drop: the value changes; poison: it falsifies the updates that it sends",
        choices=("suspend", "kill", "rejoin", "rate", "speed", "drop", "poison"),
    )
    seconds: float | None = param(
        None,
        "duration of the suspension or the change; unset: until the next change of the same kind",
        above=0,
        at_most=LONGEST,
    )
    value: float | None = param(
        None,
        "rate, speed: multiple of the value in the profile; drop: probability, in both directions; poison: factor",
        at_least=0,
        at_most=MOST_MULTIPLE,
    )
    how: str | None = param(
        None,
        "only for poison. sign-flip: the update times −factor; scaled: the update times the factor; noise: normal noise"
        " is added, whose standard deviation is the factor times the root mean square of the update",
        choices=("sign-flip", "noise", "scaled"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Repeat the delays, drops and suspensions of a recorded run."""

    trace: str | None = param(None, "a run folder or its trace.jsonl; unset: no replay")
    mode: str = param(
        "schedule",
        "schedule: the recorded delays, under any strategy; strict: also the recorded order of arrivals, under the"
        " recorded strategy",
        choices=("schedule", "strict"),
    )
    end: str = param(
        "loop",
        "when all recorded jobs of a device are used. loop: start again with the first; stop: end the run;"
        " resample: draw from them at random",
        choices=("loop", "stop", "resample"),
    )
    use: str = param(
        "obtained",
        "seconds of computing. obtained: as measured in the recorded run; asked: as its profile wanted",
        choices=("obtained", "asked"),
    )
    devices: str = param(
        "name",
        "which device replays which recording. name: by name; order: by position in the fleet; same: by name, and"
        " the fleets must have the same devices",
        choices=("name", "order", "same"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """The complete description of a run."""

    name: str = param("", "name of the run folder; default: name of the file")
    seed: int = param(
        0, "seed of batches and faults, and of data and model unless they have their own seed", at_least=0, below=2**63
    )
    data_seed: int | None = param(
        None, "seed of the data split and of generated data; unset: seed", at_least=0, below=2**63
    )
    model_seed: int | None = param(None, "seed of the initial model; unset: seed", at_least=0, below=2**63)
    task: Named = param(DEFAULT_TASK, "name of a task, or a table with name and parameters")
    strategy: Named = param(meaning="name of a strategy, module:Class, or a table with name and parameters")
    dilation: float | str = param(
        1.0,
        "host seconds per emulated second; auto: the smallest value, at least 1, that this host can sustain",
        at_least=LEAST_DILATION,
        at_most=MOST_DILATION,
        choices=("auto",),
    )
    clock: str = param(
        "wall",
        "wall: each device is a process, in real time; virtual: one process computes the run as fast as it can, and"
        " nothing is measured",
        choices=("wall", "virtual"),
    )
    compute: str = param(
        "train",
        "only for clock = 'virtual'. train: devices train their models; none: they train nothing, and only timing,"
        " staleness, energy and bytes are computed",
        choices=("train", "none"),
    )
    cores: str = param(
        "auto",
        "whether devices may use the aggregator's core. apart: only if there is no other; shared: yes; auto: if it is"
        " needed and the timing will hold; a fleet without deadlines then uses all cores",
        choices=("auto", "shared", "apart"),
    )
    training: Job = param(Job(), "local training")
    compress_updates: str = param(
        NONE,
        f"how devices compress the updates that they send: {FORMS}; what is not sent is added to the next update",
    )
    stop: StopWhen = param(StopWhen(seconds=60.0), "when the run ends")
    devices: tuple[DeviceGroup, ...] = param(meaning="the fleet: a list of device groups")
    cell: Cell | None = param(None, "radio cell whose band the uplinks share, for strategies that grant rates (asafl)")
    transport: Transport = param(Transport(), "connections between processes")
    aggregator: AggregatorSettings = param(
        AggregatorSettings(), "a bound on updates, and the patience with the strategy"
    )
    evaluation: Evaluation = param(Evaluation(), "how often models are scored")
    presence: Presence = param(Presence(), "heartbeats")
    checkpoint: Checkpoint = param(Checkpoint(), "how often the state of the run is saved")
    replay: Replay = param(Replay(), "a recorded run to repeat")
    events: tuple[ScriptedEvent, ...] = param(
        (), "events that happen to devices at fixed moments, identical under every strategy"
    )
    compress: bool = param(False, "compress trace.jsonl (gzip) after the run, when its results are written")

    def compression_of(self, group: DeviceGroup) -> str:
        """How the devices of a group compress their updates."""
        return self.compress_updates if group.compress_updates is None else group.compress_updates

    @property
    def compresses_updates(self) -> bool:
        """Whether any device compresses its updates."""
        return any(self.compression_of(group) != NONE for group in self.devices)

    @property
    def task_name(self) -> str:
        return name_and_parameters(self.task)[0]

    @property
    def task_parameters(self) -> TomlTable:
        return name_and_parameters(self.task)[1]

    @property
    def strategy_name(self) -> str:
        return name_and_parameters(self.strategy)[0]

    @property
    def strategy_parameters(self) -> TomlTable:
        return name_and_parameters(self.strategy)[1]


def name_and_parameters(value: Named) -> tuple[str, TomlTable]:
    """Split a task, split or strategy, which a profile gives as a name or as a table."""
    if isinstance(value, str):
        return value, {}
    return value["name"], {key: item for key, item in value.items() if key != "name" and not is_mark(key, item)}


def is_mark(key: str, value: object) -> bool:
    """Whether a key says that a task or strategy was a Python object: no parameters and no file describe it fully."""
    return key == "object" and value is True
