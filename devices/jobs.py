"""Jobs: how a device begins one, finishes it with an update, or abandons it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from devices.baseline import Baseline
from devices.compute.kept_memory import JobTickets
from devices.compute.pace import Pace
from devices.compute.trainer import Trainer, mean_loss
from devices.work import Work
from testbed.emulation.faults import Timetable
from testbed.emulation.poison import poison_at, poisoned
from testbed.history.trace import Abandoned, DeviceEvent, Poisoned, Trained
from testbed.host.kernel import Usage
from testbed.profile.fleet import DeviceSpec
from testbed.profile.speed import SteppedCurve
from testbed.wire.error_feedback import ErrorFeedback
from testbed.wire.messages import Grant, Train, Update, Vector
from testbed.wire.training_job import Job

Meter: TypeAlias = Callable[[], Usage | None]
"""Reads the CPU seconds of the process that computes; None if the kernel does not report them."""


class Jobs:
    """Begins and ends the jobs of one device, and passes an event about each end to ``note``.

    ``lead``, ``ahead``, ``grain``, ``whole``: see Device. ``last``: when the device dies.
    """

    def __init__(
        self,
        spec: DeviceSpec,
        timetable: Timetable,
        samples: int,
        trainer: Trainer,
        meter: Meter,
        note: Callable[[DeviceEvent], None],
        *,
        lead: float,
        ahead: float,
        grain: float,
        last: float,
        whole: bool = False,
    ) -> None:
        self._spec, self._timetable, self._samples, self._trainer = spec, timetable, samples, trainer
        self._lead, self._ahead, self._grain, self._last = lead, ahead, grain, last
        self._whole = whole
        self._note = note
        self._curve = spec.curve
        self._feedback = ErrorFeedback(spec.compress_updates)
        self._baseline: Baseline | None = None
        """What the aggregator has of this device, if the device uploads differences to it."""
        self.meter = meter
        self.paced = spec.throttle in ("pace", "none")
        """True: this process computes the steps one by one. False: a worker process computes them, under a quota."""

    def begin(self, train: Train, job: Job, number: int, moment: float, grant: Grant | None) -> Work:
        """Begin job ``number`` at ``moment``. ``grant``: the last one, which may be for another ticket."""
        self._feedback.begin(train.ticket, train.arrived)
        steps = job.steps_over(self._samples)
        seconds_per_sample, curve = self._spec.seconds_per_sample, self._curve
        recorded = self._timetable.step_seconds(number)
        if recorded is not None:  # the recorded seconds already contain the phases of the curve
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
            computing=self._trainer(job, train.model, number, JobTickets(train.ticket, train.arrived)),
            pace=pace,
            started=moment,
            suspension=self._timetable.suspension(number),
            granted=grant if grant is not None and grant.ticket == train.ticket else None,
            is_whole=self._whole,
        )

    def finish(self, work: Work, moment: float, now: float, *, over_link: bool = True) -> None:
        """Make the update of a job whose last step ended at ``moment``; it is compressed if it goes over a link."""
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
        delta, since = self._to_upload(work.train, self._falsified(work, moment, max(now, moment)))
        delta, payload = self._feedback.compress(ticket, delta) if over_link else (delta, None)
        work.update = Update(
            device=self._spec.name,
            ticket=ticket,
            version=work.train.version,
            delta=delta,
            since=since,
            payload=payload,
            samples=self._samples,
            steps=work.steps,
            started=work.started,
            finished=moment,
            due=moment,
            loss=mean_loss(work.losses + work.computing.late_losses, work.steps),
        )

    def abandon(self, work: Work, now: float) -> None:
        """Throw a job away, in its training or in its upload."""
        work.computing.close()
        name, ticket, pace = self._spec.name, work.train.ticket, work.pace
        if work.update is None:
            event = Abandoned(
                t=now,
                device=name,
                ticket=ticket,
                steps=work.done_by(now),
                seconds=pace.obtained(now),
                checks=pace.checks,
                misses=pace.misses,
                use=pace.use(),
            )
        else:  # in its upload: Trained has already reported the checks and misses
            seconds = pace.obtained(work.update.finished)
            event = Abandoned(t=now, device=name, ticket=ticket, steps=work.done, seconds=seconds, checks=0, misses=[])
        self._note(event)

    def update_baseline(self, train: Train) -> None:
        """Read from a Train which update of this device the aggregator applied last."""
        if train.baseline is not None:
            self._baseline = self._baseline or Baseline(train.model.size)
            self._baseline.confirm(train.baseline)

    def validate(self, work: Work) -> None:
        """Raise AssertionError if a job does not agree with the baseline."""
        ticket = work.train.ticket
        assert work.train.baseline is None or self._baseline is not None, f"ticket {ticket}: there is no baseline"
        if work.update is not None:
            assert work.update.delta.size == work.train.model.size, f"ticket {ticket}: the delta has another size"
            assert work.train.baseline is not None or not work.update.since, f"ticket {ticket}: a needless difference"
        if self._baseline is not None:
            self._baseline.validate()

    def _falsified(self, work: Work, moment: float, now: float) -> Vector:
        """Return the result of a job that ended at ``moment``; the poisoned one if the script or recording says so."""
        delta, number = work.computing.result(), work.number
        poison = self._timetable.poison(number) or poison_at(self._spec.script, moment)
        if poison is None:
            return delta
        event = Poisoned(t=now, device=self._spec.name, ticket=work.train.ticket, how=poison.how, factor=poison.factor)
        self._note(event)
        return poisoned(delta, poison, self._timetable.poison_noise(number))

    def _to_upload(self, train: Train, delta: Vector) -> tuple[Vector, int]:
        """Return the update and 0; or its difference to the baseline, and the last ticket of the baseline.

        Call it once for each ticket.
        """
        if train.baseline is None or self._baseline is None:
            return delta, 0
        return self._baseline.difference(train.ticket, delta)
