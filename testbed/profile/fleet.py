"""The devices of an experiment, in order, with all settings that their processes need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from testbed.history.events.watts import Watts
from testbed.host.survey import Survey
from testbed.profile import script, speed
from testbed.profile.power import watts_of
from testbed.profile.schema import DeviceGroup, DeviceProfile, Direction, Experiment, LinkProfile, Phase, ScriptedEvent
from testbed.traces import availability, offsets, rate
from testbed.traces.availability import Absence


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One device of the fleet. All seconds are emulated."""

    name: str
    index: int
    group: int
    """Index of its group in the profile, for errors."""
    title: str
    throttle: str
    seconds_per_sample: float | None
    """None if the device is not throttled."""
    schedule: tuple[Phase, ...] = ()
    schedule_period: float | None = None
    up: Direction
    down: Direction
    suspend: float
    suspend_max: float
    suspend_by: str
    on_drop: str
    tick: float | None
    """None unless lost uploads are sent again once per tick."""
    on_lost_download: str = "wait"
    compress_updates: str = "none"
    """How it compresses its updates: see ``testbed.wire.compression_method``."""
    watts: Watts | None = None
    """None without a power model."""
    availability: str | None = None
    availability_offset: float = 0.0
    distance: float | None = None
    """Metres to the server; None without a radio cell."""
    script: tuple[ScriptedEvent, ...] = ()
    """Its scripted events, in order."""

    def absences(self, since: float) -> Iterator[Absence]:
        """Yield its absences by availability trace or script, in order, from the first that ends after ``since``."""
        if self.availability is None and not self.script:
            return iter(())
        suspensions = script.suspensions(self.script, since)
        if self.availability is None:
            return suspensions
        away = availability.load(self.availability).absences(since, self.availability_offset)
        return script.merge_absences(away, suspensions) if self.script else away

    @property
    def curve(self) -> speed.SteppedCurve:
        """Its speed over time: schedule and script."""
        own, changes = speed.SteppedCurve(self.schedule, self.schedule_period), script.phases(self.script, "speed")
        return speed.ScaledCurve(own, changes) if changes else own


def names(experiment: Experiment) -> list[str]:
    """Return the names of the devices, in order."""
    return [f"{group.name}-{number}" for _, group, number in _numbered(experiment)]


def members(experiment: Experiment) -> list[script.Member]:
    """Return the name and the group of each device, in order."""
    return [(f"{group.name}-{number}", group) for _, group, number in _numbered(experiment)]


def concrete(experiment: Experiment, survey: Survey) -> list[DeviceSpec]:
    """Return the devices of a resolved experiment, in order."""
    numbered = enumerate(_numbered(experiment))
    return [
        _device(experiment, survey, index=index, place=place, group=group, number=number)
        for index, (place, group, number) in numbered
    ]


def dead_at(devices: Iterable[DeviceSpec], at: float) -> frozenset[str]:
    """Return the names of the devices that the script has killed by then and that have not rejoined."""
    found = set()
    for device in devices:
        fates = [event.do for event in device.script if event.do in ("kill", "rejoin") and event.at <= at]
        if fates and fates[-1] == "kill":
            found.add(device.name)
    return frozenset(found)


def _device(
    experiment: Experiment, survey: Survey, *, index: int, place: int, group: DeviceGroup, number: int
) -> DeviceSpec:
    profile, link = group.profile, group.link
    assert isinstance(profile, DeviceProfile)
    assert isinstance(link, LinkProfile)
    up, down = (_with_offset(direction, experiment.seed, index) for direction in (link.up, link.down))
    up, down, on_drop = _with_losses(group, up, down)
    interval: float | None = experiment.strategy_parameters.get("interval")
    # in eq. (1) of AUDG, devices continue from their old base; elsewhere they wait for the model
    default = "wait" if interval is None or on_drop == "give_up" else "old_base"
    timed = group if group.schedule else profile
    name = f"{group.name}-{number}"
    return DeviceSpec(
        name=name,
        index=index,
        group=place,
        title=profile.title or group.name or "",
        throttle=profile.throttle,
        seconds_per_sample=speed.seconds_per_sample(group, profile, experiment, survey),
        schedule=timed.schedule,
        schedule_period=timed.schedule_period,
        compress_updates=experiment.compression_of(group),
        watts=watts_of(profile.power, link.power),
        suspend=group.suspend,
        suspend_max=group.suspend_max,
        suspend_by=group.suspend_by,
        availability=group.availability,
        availability_offset=_availability_offset(group, experiment.seed, index),
        distance=_distance(group, experiment, index),
        script=script.events_of(experiment, name, group),
        up=up,
        down=down,
        on_drop=on_drop,
        tick=group.tick or interval if on_drop == "next_tick" else None,
        on_lost_download=group.on_lost_download or default,
    )


def _with_losses(group: DeviceGroup, up: Direction, down: Direction) -> tuple[Direction, Direction, str]:
    """Return both directions with the drop probabilities of the group, and what a lost upload leads to."""
    if group.drop is not None:
        up, down = replace(up, drop=group.drop), replace(down, drop=group.drop)
    if group.phi is not None:
        return replace(up, drop=1 - group.phi), down, "next_tick"
    return up, down, group.on_drop


def _with_offset(direction: Direction, seed: int, device: int) -> Direction:
    """Return the direction with the position in its trace at which the run begins."""
    if direction.trace is None or direction.trace_offset is not None:
        return direction
    period = rate.load(direction.trace).period
    return replace(direction, trace_offset=offsets.drawn(seed, device, offsets.OffsetKind.LINK, period))


def _availability_offset(group: DeviceGroup, seed: int, device: int) -> float:
    if group.availability is None or group.availability_offset is not None:
        return group.availability_offset or 0.0
    period = availability.load(group.availability).period
    return offsets.drawn(seed, device, offsets.OffsetKind.AVAILABILITY, period)


def _distance(group: DeviceGroup, experiment: Experiment, device: int) -> float | None:
    if experiment.cell is None or group.distance is not None:
        return group.distance
    return experiment.cell.place(offsets.drawn(experiment.seed, device, offsets.OffsetKind.PLACE, 1.0))


def _numbered(experiment: Experiment) -> Iterator[tuple[int, DeviceGroup, int]]:
    """Yield for each device the index of its group, the group, and its number among devices of the same name.

    Two groups may share a name.
    """
    totals: dict[str, int] = {}
    for place, group in enumerate(experiment.devices):
        assert group.name
        for _ in range(group.count):
            totals[group.name] = totals.get(group.name, 0) + 1
            yield place, group, totals[group.name]
