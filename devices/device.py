"""The life of a device as a state machine: messages and the time go in, updates and events come out. No I/O.

A job is downloaded (``downloads.py``), trained (``jobs.py``: paced, perhaps suspended in the middle) and uploaded
(``uploads.py``), where the rule wants it so only when it has granted a rate; here is what follows when on what. A Train
that comes while the device is busy downloads beside the old work and replaces it when it is there; if that download is
lost, the old work goes on. A Train without a job is the final model, which ends all work.

A device that is away by its availability trace, or hangs by the script, stands still wherever it is. When that will be
is known beforehand: transfers are due after it from the start, deadlines of computing move when it is over.

Whatever is due counts from the moment at which the thing before it was due, never from the moment at which this
process woke up and saw it; only a step that was computed too late moves what comes after it. So waiting for a core is
absorbed as long as there is slack, and never adds up.
"""

from __future__ import annotations

import math

import msgspec

from devices.compute.trainer import Trainer
from devices.downloads import Downloads
from devices.jobs import Jobs, Meter
from devices.route import NEVER, Route
from devices.uploads import Uploads
from devices.work import State, Suspension, Work
from testbed.emulation.faults import Timetable
from testbed.history.trace import Event, Scripted, Suspended, as_table
from testbed.profile.fleet import DeviceSpec
from testbed.profile.script import Script
from testbed.wire.messages import Ask, Base, Grant, Heartbeat, Job, Train, Update


class Device:
    """One emulated device."""

    def __init__(
        self,
        spec: DeviceSpec,
        timetable: Timetable,
        samples: int,
        trainer: Trainer,
        meter: Meter = lambda: None,
        lead: float = 0.0,
        ahead: float = 0.0,
        grain: float = 0.0,
        begins: float = 0.0,
    ) -> None:
        """``lead``: so many seconds before it is due, an update is given to the transport.

        ``ahead``: so many seconds before its time, a step may be computed. ``grain``: see Pace. ``begins``: when it is
        there, if it was dead before.
        """
        self.spec = spec
        self._lead = lead
        self._script, self._dead = Script(spec.script, begins), False
        self._events: list[Event] = []
        self._ways = Route(spec, timetable)
        self._downloads = Downloads(spec.name, self._ways, self._events.append, begins)
        self._jobs = Jobs(
            spec,
            timetable,
            samples,
            trainer,
            meter,
            self._events.append,
            lead=lead,
            ahead=ahead,
            grain=grain,
            last=self._script.killed_at,
        )
        self._uploads = Uploads(spec, self._ways, self._events.append)
        self._work: Work | None = None
        self._base: Train | Base | None = None
        """The model to go on with where a download is lost, if the device does so."""
        self._suspension: Suspension | None = None
        self._absences = spec.absences(begins)
        self._absence = next(self._absences, NEVER)
        """The next time that it is away."""
        self._inbox: Train | None = None
        self._awake_since = begins
        self._finished = 0
        self._trains = 0
        self._grant: Grant | None = None
        """The last one, which may be here before the model that it is for."""
        self.outbox: list[Update | Ask] = []

    # ---- what goes in

    def receive(self, train: Train, now: float) -> None:
        """A Train has reached this end of the transport; its way over the emulated link began when it was sent."""
        if self._dead:
            return
        self._trains += 1
        if self._suspension is not None and not self._suspension.away:
            self._inbox = train
        else:
            self._download(train, train.sent, now)

    def receive_base(self, base: Base) -> None:
        """In an earlier life, before the run was interrupted, this model was here."""
        self._base = base

    def receive_grant(self, grant: Grant) -> None:
        """An upload begins when it was granted, or computed: not when this process saw the grant."""
        if self._dead:
            return
        self._grant, work = grant, self._work
        if work is None or work.train.ticket != grant.ticket:
            return  # for a model on its way; or for work that is given up
        if work.waits and work.update is not None:
            work.retry_at = max(work.update.finished, grant.sent)
        work.granted = work.granted or grant

    def advance(self, now: float) -> None:
        """Do everything that is due, except computing a step."""
        if self._dead:
            return
        self._advance(min(now, self._script.killed_at))
        while self._script.next <= now and not self._dead:
            event = self._script.take()
            if event.do == "kill":
                self._die(event.at)
            else:  # what it does to links, computing and the device was known beforehand
                self._events.append(
                    Scripted(t=event.at, device=self.spec.name, do=event.do, seconds=event.seconds, value=event.value)
                )

    def _die(self, moment: float) -> None:
        """From now on nothing happens any more."""
        self.stop(moment)
        self._work = self._suspension = self._inbox = None
        self._downloads.stop()
        self._dead = True

    def _advance(self, now: float) -> None:
        while True:
            work = self._work
            download = self._downloads.due
            if self._suspension is not None:
                if work is not None and work.send_at <= min(now, self._suspension.until):
                    self._send(work)  # due as soon as the device is back
                elif self._suspension.until > now:
                    return
                else:
                    self._wake_up(self._suspension.until, now)
            elif work is not None and work.send_at <= min(now, download):
                self._send(work)
            else:
                gone, wanted = self._absence[0], self.wants_step(now)
                moment = self._work_due(work) if work is not None and not wanted else math.inf
                if min(download, moment) > min(now, gone):  # what was due first comes first, however late we wake
                    if gone > now or wanted:
                        return
                    self._go_away()
                elif work is not None and moment <= download:
                    self._advance_work(work, now)
                else:
                    self._end_download(now)

    def wants_step(self, now: float) -> bool:
        """Whether the next local step should be computed now: a step that begins before the device goes away, too."""
        work = self._work
        return (
            work is not None
            and self._jobs.paced
            and work.done < work.steps
            and self._suspension is None
            and not work.suspends_now
            and work.pace.begins(work.done) <= min(now, self._absence[0])
        )

    def step(self) -> None:
        """Compute one local step, at the speed of the host. Call :meth:`stepped` with the time after it."""
        assert self._work is not None
        self._work.losses += self._work.computing.step()
        self._work.done += 1

    def stepped(self, now: float) -> None:
        assert self._work is not None
        self._work.pace.finished_step(self._work.done, now, self._jobs.meter())

    def progressed(self, loss: float, now: float) -> None:
        """A step has ended in the process that computes for us."""
        assert self._work is not None
        self._work.losses += loss
        self._work.done += 1
        self.stepped(now)

    def stop(self, now: float) -> None:
        """The run is over: tell what was under way, so that the seconds spent on it are not taken for idle ones.

        What was due by now has happened, although this process may not have looked yet: an update that the aggregator
        has applied must not be missing here.
        """
        self.advance(now)
        if self._suspension is not None:
            self._wake_up(now, now)
        if self._work is not None and self._work.update is None:
            self._jobs.abandon(self._work, now)

    # ---- what comes out

    def due(self) -> float:
        """When :meth:`advance` or :meth:`step` is next wanted; infinity while only a message can change anything."""
        return math.inf if self._dead else min(self._script.next, self._due())

    def _due(self) -> float:
        if self._suspension is not None:
            return min(self._suspension.until, self._work.send_at if self._work is not None else math.inf)
        moment = min(self._absence[0], self._downloads.due)
        if self._work is not None:
            moment = min(moment, self._work.send_at, self._work_due(self._work))
        return moment

    @property
    def frozen_until(self) -> float | None:
        """While the whole process should be stopped: when it should go on."""
        if self._suspension is None or self.spec.suspend_by != "signal":
            return None
        # a process that is stopped could neither send an update nor tell its last word
        send_at = self._work.send_at if self._work is not None else math.inf
        return min(self._suspension.until, send_at, self._script.killed_at)

    @property
    def state(self) -> State:
        if self._dead:
            return State.KILLED
        if self._suspension is not None:
            return State.SUSPENDED
        if self._work is not None:
            if self._work.waits:
                return State.WAITING
            return State.TRAINING if self._work.update is None else State.UPLOADING
        return State.IDLE if self._downloads.train is None else State.DOWNLOADING

    @property
    def own_range(self) -> int | None:
        """Of tickets that come from a cluster head which is this device: they go over no link."""
        return self._ways.own_range

    @own_range.setter
    def own_range(self, ticket_range: int | None) -> None:
        self._ways.own_range = ticket_range

    @property
    def awake_since(self) -> float:
        """When it was back, the last time that it hung."""
        return self._awake_since

    @property
    def dies_at(self) -> float:
        """When the script kills it."""
        return self._script.killed_at

    def beat(self) -> Heartbeat:
        """A heartbeat, which carries the events since the last message."""
        return msgspec.structs.replace(self.standing(), events=self.take_events())

    def standing(self) -> Heartbeat:
        """A heartbeat that tells of no events."""
        work = self._work
        holding = self._inbox or self._downloads.train or (work.train if work is not None else None)
        return Heartbeat(
            device=self.spec.name,
            state=self.state.value,
            ticket=holding.ticket if holding is not None else 0,
            finished=self._finished,
            trains=self._trains,
            progress=work.done / work.steps if work is not None else 0.0,
            drops=self._downloads.drops + self._uploads.drops,
        )

    def take_events(self) -> tuple[dict[str, object], ...]:
        events = tuple(as_table(event) for event in self._events)
        self._events.clear()
        return events

    # ---- download

    def _download(self, train: Train, moment: float, now: float) -> None:
        coming, work = self._downloads.train, self._work
        in_hand = (coming.ticket if coming is not None else 0, work.train.ticket if work is not None else 0)
        if train.ticket in in_hand or train.ticket <= self._finished:
            return  # sent again although we have it, or had it
        self._downloads.begin(train, moment, now, self._suspension)

    def _end_download(self, now: float) -> None:
        train, way = self._downloads.end(now)
        moment = max(way.due, self._awake_since)
        if way.dropped:
            if self._base is not None and self._work is None and train.job is not None:
                # the ticket is new, the model is not: the update will say which one it is based on
                old = msgspec.structs.replace(train, version=self._base.version, model=self._base.model)
                self._start_work(old, train.job, moment)
            return
        if self._work is not None:
            self._jobs.abandon(self._work, now)
            self._work = None
        self._jobs.told(train)
        if train.job is None:
            self._finished = train.ticket  # the final model: the next heartbeat says that it is here
            return
        self._base = train if self.spec.on_lost_download == "old_base" else None
        self._start_work(train, train.job, moment)

    # ---- training

    def _start_work(self, train: Train, job: Job, moment: float) -> None:
        self._work = self._jobs.begin(train, job, self._downloads.number, moment, self._grant)

    def _work_due(self, work: Work) -> float:
        """When something ends, or the next step should begin."""
        if work.update is not None:
            return work.upload.due if work.upload is not None else work.retry_at
        if work.suspends_now:
            return work.pace.ended(work.done)
        if work.done == work.steps:  # computed ahead, its way out can be prepared ahead, unless the end will move
            ended = work.pace.ended(work.done)
            return ended - self._lead if ended <= min(self._absence[0], self._script.killed_at) else math.inf
        return work.pace.begins(work.done) if self._jobs.paced else math.inf

    def _advance_work(self, work: Work, now: float) -> None:
        if work.update is None:
            if work.suspends_now:
                self._fall_asleep(work, work.pace.ended(work.done))
            elif work.done == work.steps:
                self._finish_training(work, work.pace.ended(work.done), now)
        elif work.upload is None:
            self._uploads.begin(work, work.retry_at)
        elif self._uploads.end(work, now):
            self._work = None

    def _fall_asleep(self, work: Work, moment: float) -> None:
        assert work.suspension is not None
        seconds = work.suspension.seconds
        work.suspension = None
        work.computing.pause()
        self._suspension = Suspension(started=moment, until=moment + seconds, asked=seconds)

    def _go_away(self) -> None:
        """The device is away for a while, whatever it does."""
        (gone, back), self._absence = self._absence, next(self._absences, NEVER)
        started = max(gone, self._awake_since)
        if back <= started:
            return  # it hung for all of it
        work = self._work
        if work is not None and work.update is None:
            work.computing.pause()
        self._suspension = Suspension(started=started, until=back, asked=back - started, away=True)

    def _wake_up(self, moment: float, now: float) -> None:
        assert self._suspension is not None
        suspension, self._suspension, self._awake_since = self._suspension, None, moment
        work = self._work if self._work is not None and self._work.update is None else None
        if work is not None:
            work.computing.resume()
            work.pace.hold(suspension.started, moment)
        self._events.append(
            Suspended(
                t=now,
                device=self.spec.name,
                ticket=work.train.ticket if work is not None else 0,
                steps=work.done if work is not None else 0,
                asked=suspension.asked,
                obtained=now - suspension.started,
                away=suspension.away,
            )
        )
        if self._inbox is not None:
            train, self._inbox = self._inbox, None
            self._download(train, max(moment, train.sent), now)

    def _finish_training(self, work: Work, moment: float, now: float) -> None:
        self._finished = work.train.ticket
        self._jobs.finish(work, moment, now)
        if work.waits:  # ``retry_at`` is never until a grant comes
            self.outbox.append(Ask(device=self.spec.name, ticket=work.train.ticket, due=moment, trains=self._trains))
        else:
            self._uploads.begin(work, moment if work.granted is None else max(moment, work.granted.sent))

    def _send(self, work: Work) -> None:
        """To the aggregator's process, which keeps it until it is due: by then the transport has done its part."""
        assert work.update is not None
        assert work.upload is not None
        work.sent = True
        self.outbox.append(msgspec.structs.replace(work.update, due=work.upload.due, trains=self._trains))
