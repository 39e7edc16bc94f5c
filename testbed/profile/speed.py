"""The speed of a device: seconds per sample from the keys of its profile, and changes over time."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from testbed.common.errors import ProfileError
from testbed.host.survey import Survey
from testbed.profile.schema import SPEED_KEYS, DeviceGroup, DeviceProfile, Experiment, Phase, Speed

FLOPS_PER_CYCLE = 4
"""ASAFL's cycles per sample, 124,274.5 and 76,415,682.5, are the forward pass's FLOPs of its networks divided by 4."""


class SteppedCurve:
    """A piecewise constant speed. Work is measured in seconds at the normal speed (multiple 1)."""

    def __init__(self, phases: Sequence[Phase] = (), period: float | None = None) -> None:
        self._moments = [0.0, *(phase.at for phase in phases)]
        self._speeds = [1.0, *(phase.speed for phase in phases)]
        self._period = math.inf if period is None else period
        ends = [*self._moments[1:], self._period]
        self._work_per_period = sum(
            (end - begin) * speed for begin, end, speed in zip(self._moments, ends, self._speeds, strict=True)
        )

    @property
    def fastest(self) -> float:
        """The highest multiple."""
        begun = self._speeds[1:] if self._moments[1:2] == [0.0] else self._speeds
        return max(begun)

    def work(self, start: float, end: float) -> float:
        """Return the work done from ``start`` to ``end``."""
        if len(self._speeds) == 1:
            return end - start
        done, periods = 0.0, self._whole_periods((end - start) / self._period)
        if periods:
            done, start = periods * self._work_per_period, start + periods * self._period
        for until, speed in self._pieces(start):
            if until >= end:
                return done + (end - start) * speed
            done += (until - start) * speed
            start = until
        raise AssertionError("the last piece has no end")

    def when(self, start: float, work: float) -> float:
        """Return the moment at which ``work`` that began at ``start`` is done."""
        if len(self._speeds) == 1:
            return start + work
        periods = self._whole_periods(work / self._work_per_period)
        if periods:
            work, start = work - periods * self._work_per_period, start + periods * self._period
        for until, speed in self._pieces(start):
            if (until - start) * speed >= work:
                return start + work / speed
            work -= (until - start) * speed
            start = until
        raise AssertionError("the last piece has no end")

    @staticmethod
    def _whole_periods(count: float) -> int:
        """Return how many periods to skip at once: one less than the count, because of rounding."""
        return max(0, math.floor(count) - 1)

    def _pieces(self, start: float) -> Iterator[tuple[float, float]]:
        """Yield end and speed of each piece from ``start`` on, without pieces of length 0."""
        period = self._period
        begun = 0.0 if math.isinf(period) else math.floor(start / period) * period
        piece = bisect_right(self._moments, start - begun) - 1
        while True:
            last = piece == len(self._moments) - 1
            yield begun + (period if last else self._moments[piece + 1]), self._speeds[piece]
            piece = 0 if last else piece + 1
            begun += period if last else 0.0


class SpeedCurve(Protocol):
    """Work over time; see :class:`SteppedCurve`."""

    def work(self, start: float, end: float) -> float: ...
    def when(self, start: float, work: float) -> float: ...


class ScaledCurve(SteppedCurve):
    """A speed curve multiplied by the speed changes of a script."""

    def __init__(self, own: SpeedCurve, script: Sequence[Phase]) -> None:
        super().__init__(script)
        self._own = own

    @property
    def fastest(self) -> float:
        return super().fastest * (self._own.fastest if isinstance(self._own, SteppedCurve) else 1.0)

    def work(self, start: float, end: float) -> float:
        done = 0.0
        for until, multiple in self._pieces(start):
            done += multiple * self._own.work(start, min(until, end))
            if until >= end:
                return done
            start = until
        raise AssertionError("the last piece has no end")

    def when(self, start: float, work: float) -> float:
        for until, multiple in self._pieces(start):
            possible = math.inf if math.isinf(until) else multiple * self._own.work(start, until)
            if possible >= work:
                return self._own.when(start, work / multiple)
            work -= possible
            start = until
        raise AssertionError("the last piece has no end")


def check(group: DeviceGroup, profile: DeviceProfile, experiment: Experiment, source: str, key: str) -> None:
    """Raise ProfileError if the speed of a group is missing or given more than once."""
    both: tuple[tuple[str, Speed], ...] = ((key, group), (f"{key}.profile", profile))
    for name, owner in both:
        _check_schedule(owner, source, name)
        given = [field for field in SPEED_KEYS if getattr(owner, field) is not None]
        if len(given) > 1:
            raise ProfileError(source, f"{name}.{given[1]}", f"is given in addition to {given[0]}; give only one")
        if owner.cycles_per_sample is not None and owner.clock_hz is None:
            raise ProfileError(source, f"{name}.cycles_per_sample", "is given without clock_hz: add it")
    table = profile.seconds_per_sample
    for name in profile.derived_speeds:
        if not isinstance(table, Mapping) or name not in table:
            problem = f"has {name!r}, which is no key of seconds_per_sample: remove it, or give its speed there"
            raise ProfileError(source, f"{key}.profile.derived_speeds", problem)
    if profile.throttle == "none":
        for name, owner in both:
            for field in (*SPEED_KEYS, "schedule"):
                if getattr(owner, field):
                    problem = "is given, but a device with throttle = 'none' has no speed: leave it out"
                    raise ProfileError(source, f"{name}.{field}", problem)
        return
    if profile.throttle != "pace" and (group.schedule or profile.schedule):
        raise ProfileError(
            source, f"{key}.schedule", f"needs throttle = 'pace'; the quota of {profile.throttle!r} does not change"
        )
    owner = _owner(group, profile)
    if not any(getattr(owner, field) is not None for field in SPEED_KEYS):
        raise ProfileError(source, f"{key}.seconds_per_sample", f"is missing; give one of {', '.join(SPEED_KEYS)}")
    for field in ("seconds_per_sample", "cycles_per_sample"):
        table = getattr(owner, field)
        if isinstance(table, Mapping) and _of_task(table, experiment) is None:
            known = ", ".join(sorted(table)) or "none"
            problem = f"is missing; the profile has no speed for task {experiment.task_name!r} (it has: {known})"
            problem += f": give {key} one of {', '.join(SPEED_KEYS)}"
            raise ProfileError(source, f"{key}.{field}", problem)


def seconds_per_sample(
    group: DeviceGroup, profile: DeviceProfile, experiment: Experiment, survey: Survey
) -> float | None:
    """Return the seconds that a device of this group needs for one sample; None if it is not throttled."""
    if profile.throttle == "none":
        return None
    owner = _owner(group, profile)
    if owner.seconds_per_sample is not None:
        return _of_network(owner.seconds_per_sample, experiment, survey)
    if owner.clock_hz is not None:
        given = owner.cycles_per_sample
        cycles = survey.flops_forward / FLOPS_PER_CYCLE if given is None else _of_network(given, experiment, survey)
        return cycles / owner.clock_hz  # ASAFL eq. 6
    if owner.flop_per_second is not None:
        return survey.flops_training / owner.flop_per_second
    assert owner.of_host is not None
    batch = experiment.training.batch or max(survey.samples)
    return survey.step_seconds(batch) / batch / owner.of_host


def derived_speed(group: DeviceGroup, profile: DeviceProfile, experiment: Experiment) -> str | None:
    """Return the key of a speed that was computed from FLOPs, if the devices of this group have such a speed."""
    table = _owner(group, profile).seconds_per_sample
    found = _key_of_task(table, experiment) if table is profile.seconds_per_sample else None
    return found if found in profile.derived_speeds else None


def needs_flops(experiment: Experiment) -> bool:
    """Return whether the speed of a device depends on the FLOPs of the network. Counting them takes seconds."""
    for group in experiment.devices:
        assert isinstance(group.profile, DeviceProfile)
        owner = _owner(group, group.profile)
        if owner.flop_per_second is not None or (owner.clock_hz is not None and owner.cycles_per_sample is None):
            return True
    return False


def _owner(group: DeviceGroup, profile: DeviceProfile) -> Speed:
    return group if any(getattr(group, field) is not None for field in SPEED_KEYS) else profile


def _of_task(value: float | Mapping[str, float], experiment: Experiment) -> float | None:
    """Return the value for the task: that of ``task:model``, else of the model, else of the task. None: no value."""
    if not isinstance(value, Mapping):
        return value
    key = _key_of_task(value, experiment)
    return None if key is None else value[key]


def _key_of_task(value: float | Mapping[str, float] | None, experiment: Experiment) -> str | None:
    if not isinstance(value, Mapping):
        return None
    task, model = experiment.task_name, str(experiment.task_parameters.get("model"))
    return next((key for key in (f"{task}:{model}", model, task) if key in value), None)


def _of_network(value: float | Mapping[str, float], experiment: Experiment, survey: Survey) -> float:
    """Return the value for the network of the task. One for a model alone is for its size in the catalogue."""
    found = _of_task(value, experiment)
    assert found is not None
    task, model = experiment.task_name, str(experiment.task_parameters.get("model"))
    is_for_model = isinstance(value, Mapping) and f"{task}:{model}" not in value and model in value
    return found * survey.work if is_for_model else found


def _check_schedule(owner: Speed, source: str, key: str) -> None:
    moments = [phase.at for phase in owner.schedule]
    for i in range(1, len(moments)):
        if moments[i] <= moments[i - 1]:
            raise ProfileError(source, f"{key}.schedule[{i}].at", f"is {moments[i]:g}; phases must follow each other")
    if owner.schedule_period is None:
        return
    if not moments:
        raise ProfileError(source, f"{key}.schedule_period", "is given without a schedule: add one")
    if owner.schedule_period <= moments[-1]:
        raise ProfileError(
            source, f"{key}.schedule_period", f"is {owner.schedule_period:g}; the last phase begins at {moments[-1]:g}"
        )
