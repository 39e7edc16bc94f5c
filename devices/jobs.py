"""From a model to the update that a device makes of it: how a job begins, ends, or is thrown away."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from devices.baseline import Baseline
from devices.compute.pace import Pace
from devices.compute.trainer import Trainer
from devices.work import Work
from testbed.emulation.faults import Timetable
from testbed.history.trace import Abandoned, Event, Trained
from testbed.host.kernel import Usage
from testbed.profile.fleet import DeviceSpec
from testbed.profile.speed import SteppedCurve
from testbed.wire.messages import Grant, Job, Train, Update, Vector

Meter: TypeAlias = Callable[[], Usage | None]
"""Reads what the kernel knows about the process that computes."""


class Jobs:
    """``lead``, ``ahead``, ``grain``: as the device has them. ``last``: when it dies. ``note`` is told how jobs end."""

    def __init__(
        self,
        spec: DeviceSpec,
        timetable: Timetable,
        samples: int,
        trainer: Trainer,
        meter: Meter,
        note: Callable[[Event], None],
        *,
        lead: float,
        ahead: float,
        grain: float,
        last: float,
    ) -> None:
        self._spec, self._timetable, self._samples, self._trainer = spec, timetable, samples, trainer
        self._lead, self._ahead, self._grain, self._last = lead, ahead, grain, last
        self._note = note
        self._memory: Baseline | None = None
        """What the aggregator has of this device, where it uploads differences to that."""
        self.meter = meter
        self.paced = spec.throttle in ("pace", "none")
        """Whether steps are computed here, one by one; else they run in a process of their own, under a quota."""

    def begin(self, train: Train, job: Job, number: int, moment: float, grant: Grant | None) -> Work:
        steps = job.steps_over(self._samples)
        seconds_per_sample, curve = self._spec.seconds_per_sample, self._spec.curve
        recorded = self._timetable.step_seconds(number)
        if recorded is not None:  # what was recorded has its phases in it
            seconds_per_sample, curve = recorded * steps / job.samples_after(steps, self._samples), SteppedCurve()
        pace = Pace(
            moment,
            seconds_per_sample,
            lambda steps: job.samples_after(steps, self._samples),
            curve,
            self.meter(),
            steps=steps,
            ahead=self._ahead,
            grain=self._grain,
            enforced=self.paced,
        )
        return Work(
            train=train,
            number=number,
            lead=self._lead,
            last=self._last,
            steps=steps,
            computing=self._trainer(job, train.model, number),
            pace=pace,
            started=moment,
            suspension=self._timetable.suspension(number),
            granted=grant if grant is not None and grant.ticket == train.ticket else None,
        )

    def finish(self, work: Work, moment: float, now: float) -> None:
        """Its last step was due at ``moment``."""
        ticket, pace = work.train.ticket, work.pace
        self._note(
            Trained(
                t=max(now, moment),
                device=self._spec.name,
                ticket=ticket,
                steps=work.steps,
                asked=pace.asked(work.steps),
                obtained=pace.obtained(moment),
                checks=pace.checks,
                misses=pace.misses,
                use=pace.use(),
            )
        )
        delta, since = self._to_upload(work.train, work.computing.result())
        work.update = Update(
            device=self._spec.name,
            ticket=ticket,
            version=work.train.version,
            delta=delta,
            since=since,
            samples=self._samples,
            steps=work.steps,
            started=work.started,
            finished=moment,
            due=moment,
            loss=work.losses / work.steps if math.isfinite(work.losses) else None,
        )

    def abandon(self, work: Work, now: float) -> None:
        work.computing.close()
        name, ticket, pace = self._spec.name, work.train.ticket, work.pace
        if work.update is None:
            event = Abandoned(
                t=now,
                device=name,
                ticket=ticket,
                steps=work.done,
                seconds=pace.obtained(now),
                checks=pace.checks,
                misses=pace.misses,
                use=pace.use(),
            )
        else:  # in its upload: the computing has been told before
            seconds = pace.obtained(work.update.finished)
            event = Abandoned(t=now, device=name, ticket=ticket, steps=work.done, seconds=seconds, checks=0, misses=[])
        self._note(event)

    def told(self, train: Train) -> None:
        """A model says what the aggregator took last."""
        if train.baseline is not None:
            self._memory = self._memory or Baseline(train.model.size)
            self._memory.told(train.baseline)

    def _to_upload(self, train: Train, delta: Vector) -> tuple[Vector, int]:
        """The update; or its difference to what the aggregator has, and the ticket of that. Once for each ticket."""
        if train.baseline is None or self._memory is None:
            return delta, 0
        return self._memory.difference(train.ticket, delta)
