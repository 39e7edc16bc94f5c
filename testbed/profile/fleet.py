"""The concrete devices of an experiment, in order, with everything that their processes need to know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from testbed.host.survey import Survey
from testbed.profile import script, speed
from testbed.profile.power import Watts, watts_of
from testbed.profile.schema import DeviceGroup, DeviceProfile, Direction, Experiment, LinkProfile, Phase, ScriptedEvent
from testbed.traces import availability, offsets, rate
from testbed.traces.availability import Absence


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One device of the fleet. Seconds are emulated ones."""

    name: str
    index: int
    group: int
    """Its place in the profile's list of devices, to name it in errors."""
    title: str
    throttle: str
    seconds_per_sample: float | None
    """None where the device is not throttled."""
    schedule: tuple[Phase, ...] = ()
    schedule_period: float | None = None
    up: Direction
    down: Direction
    suspend: float
    suspend_max: float
    suspend_by: str
    on_drop: str
    tick: float | None
    """None where lost uploads are not tried once per tick."""
    on_lost_download: str = "wait"
    watts: Watts | None = None
    """None without a power model."""
    availability: str | None = None
    availability_offset: float = 0.0
    distance: float | None = None
    """Metres to the server; None where there is no radio cell."""
    script: tuple[ScriptedEvent, ...] = ()
    """What is to befall it, in order."""

    def absences(self, since: float) -> Iterator[Absence]:
        """When it is away by its trace, or hangs by its script: in order, from the first that ends after ``since``."""
        suspensions = script.suspensions(self.script, since)
        if self.availability is None:
            return suspensions
        away = availability.load(self.availability).absences(since, self.availability_offset)
        return script.united(away, suspensions) if self.script else away

    @property
    def curve(self) -> speed.SteppedCurve:
        own, changes = speed.SteppedCurve(self.schedule, self.schedule_period), script.phases(self.script, "speed")
        return speed.ScaledCurve(own, changes) if changes else own


def names(experiment: Experiment) -> list[str]:
    """What the devices are called, before anything is known about their speed."""
    return [f"{group.name}-{number}" for _, group, number in _numbered(experiment)]


def members(experiment: Experiment) -> list[script.Member]:
    """What they are called, and the group that each is in."""
    return [(f"{group.name}-{number}", group) for _, group, number in _numbered(experiment)]


def concrete(experiment: Experiment, survey: Survey) -> list[DeviceSpec]:
    """The devices of a resolved experiment, in order."""
    devices: list[DeviceSpec] = []
    interval: float | None = experiment.strategy_parameters.get("interval")
    for place, group, number in _numbered(experiment):
        profile, link = group.profile, group.link
        assert isinstance(profile, DeviceProfile)
        assert isinstance(link, LinkProfile)
        index = len(devices)
        up, down = (_placed(way, experiment.seed, index) for way in (link.up, link.down))
        if group.drop is not None:
            up, down = replace(up, drop=group.drop), replace(down, drop=group.drop)
        on_drop = group.on_drop
        if group.phi is not None:
            up, on_drop = replace(up, drop=1 - group.phi), "next_tick"
        tick = group.tick or interval if on_drop == "next_tick" else None
        # eq. (1) of AUDG has devices go on with their old base; elsewhere the model is waited for
        default = "wait" if interval is None or on_drop == "give_up" else "old_base"
        timed = group if group.schedule else profile
        devices.append(
            DeviceSpec(
                name=f"{group.name}-{number}",
                index=index,
                group=place,
                title=profile.title or group.name or "",
                throttle=profile.throttle,
                seconds_per_sample=speed.seconds_per_sample(group, profile, experiment, survey),
                schedule=timed.schedule,
                schedule_period=timed.schedule_period,
                up=up,
                down=down,
                watts=watts_of(profile.power, link.power),
                on_drop=on_drop,
                tick=tick,
                on_lost_download=group.on_lost_download or default,
                suspend=group.suspend,
                suspend_max=group.suspend_max,
                suspend_by=group.suspend_by,
                availability=group.availability,
                availability_offset=_offset(group, experiment.seed, index),
                distance=_distance(group, experiment, index),
                script=script.events_of(experiment, f"{group.name}-{number}", group),
            )
        )
    return devices


def _placed(way: Direction, seed: int, device: int) -> Direction:
    """With the place in its trace at which the run begins."""
    if way.trace is None or way.trace_offset is not None:
        return way
    period = rate.load(way.trace).period
    return replace(way, trace_offset=offsets.drawn(seed, device, offsets.OffsetKind.LINK, period))


def _offset(group: DeviceGroup, seed: int, device: int) -> float:
    if group.availability is None or group.availability_offset is not None:
        return group.availability_offset or 0.0
    period = availability.load(group.availability).period
    return offsets.drawn(seed, device, offsets.OffsetKind.AVAILABILITY, period)


def _distance(group: DeviceGroup, experiment: Experiment, device: int) -> float | None:
    if experiment.cell is None or group.distance is not None:
        return group.distance
    return experiment.cell.place(offsets.drawn(experiment.seed, device, offsets.OffsetKind.PLACE, 1.0))


def _numbered(experiment: Experiment) -> Iterator[tuple[int, DeviceGroup, int]]:
    """Each device's group with its place in the profile, and its number among those of the same name.

    Two groups may share a name.
    """
    totals: dict[str, int] = {}
    for place, group in enumerate(experiment.devices):
        assert group.name
        for _ in range(group.count):
            totals[group.name] = totals.get(group.name, 0) + 1
            yield place, group, totals[group.name]


def dead_at(devices: Iterable[DeviceSpec], at: float) -> frozenset[str]:
    """Whom the script had killed by then, and who is not back yet."""
    found = set()
    for device in devices:
        fates = [event.do for event in device.script if event.do in ("kill", "rejoin") and event.at <= at]
        if fates and fates[-1] == "kill":
            found.add(device.name)
    return frozenset(found)
