"""The life of a device as a state machine: messages and the time go in, updates and events come out. No I/O.

A job is downloaded, trained (paced, perhaps suspended in the middle) and uploaded, where the rule wants it so only when
it has granted a rate. A Train that comes while the
device is busy downloads beside the old work and replaces it when it is there; if that download is lost, the old
work goes on. A Train without a job is the final model, which ends all work.

A device that is away by its availability trace, or hangs by the script, stands still wherever it is. When that will be
is known beforehand: transfers are due after it from the start, deadlines of computing move when it is over.

Whatever is due counts from the moment at which the thing before it was due, never from the moment at which this
process woke up and saw it; only a step that was computed too late moves what comes after it. So waiting for a core is
absorbed as long as there is slack, and never adds up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import msgspec

from devices.computing import Trainer
from devices.link import Transfer, next_tick, transfer
from devices.memory import Remembered
from devices.throttle import Pace
from devices.work import Hang, State, Work
from testbed.faults import Timetable, scripted
from testbed.fleet import DeviceSpec
from testbed.host import Usage
from testbed.messages import Ask, Beat, Grant, Job, Train, Update, Vector, book_of
from testbed.script import Script, phases
from testbed.speed import Curve
from testbed.trace import Abandoned, Downloaded, Event, Scripted, Suspended, Trained, Uploaded, as_table

_NEVER = (math.inf, math.inf)

Meter: TypeAlias = Callable[[], Usage | None]
"""Reads what the kernel knows about the process that computes."""


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
        self._timetable = timetable
        self._samples = samples
        self._trainer = trainer
        self._meter = meter
        self._lead, self._ahead, self._grain = lead, ahead, grain
        self._curve = spec.curve
        self._paced = spec.throttle in ("pace", "none")
        """Whether steps are computed here, one by one; else they run in a process of their own, under a quota."""
        self._work: Work | None = None
        self._download: tuple[Train, Transfer] | None = None
        self._base: Train | None = None
        """The model to go on with where a download is lost, if the device does so."""
        self._hang: Hang | None = None
        self._script, self._dead = Script(spec.script, begins), False
        self._rates = phases(spec.script, "rate")
        self._absences = spec.absences(begins)
        self._absence = next(self._absences, _NEVER)
        """The next time that it is away."""
        self._inbox: Train | None = None
        self._number = 0
        """Of the last job that it was sent."""
        self._taken = self._awake_since = begins
        self._attempt = 0
        self._ticket = 0
        self._finished = 0
        self._trains = 0
        self._drops = 0
        self._events: list[Event] = []
        self._grant: Grant | None = None
        """The last one, which may be here before the model that it is for."""
        self._memory: Remembered | None = None
        """What the aggregator has of this device, where it uploads differences to that."""
        self.own_book: int | None = None
        """Of tickets that come from a cluster head which is this device: they go over no link."""
        self.outbox: list[Update | Ask] = []

    # ---- what goes in

    def receive(self, train: Train, now: float) -> None:
        """A Train has reached this end of the transport; its way over the emulated link began when it was sent."""
        if self._dead:
            return
        self._trains += 1
        if self._hang is not None and not self._hang.away:
            self._inbox = train
        else:
            self._start_download(train, train.sent, now)

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
                self._note(
                    Scripted(
                        t=event.at, device=self.spec.name, do=event.do, seconds=event.seconds, value=event.value
                    )
                )  # fmt: skip

    def _die(self, moment: float) -> None:
        """From now on nothing happens any more."""
        self.stop(moment)
        self._work = self._download = self._hang = self._inbox = None
        self._dead = True

    def _advance(self, now: float) -> None:
        while True:
            work = self._work
            download = self._download[1].due if self._download is not None else math.inf
            if self._hang is not None:
                if work is not None and work.send_at <= min(now, self._hang.until):
                    self._send(work)  # due as soon as the device is back
                elif self._hang.until > now:
                    return
                else:
                    self._wake_up(self._hang.until, now)
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
            and self._paced
            and work.done < work.steps
            and self._hang is None
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
        self._work.pace.finished_step(self._work.done, now, self._meter())

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
        if self._hang is not None:
            self._wake_up(now, now)
        if self._work is not None and self._work.update is None:
            self._abandon(self._work, now)

    # ---- what comes out

    def due(self) -> float:
        """When :meth:`advance` or :meth:`step` is next wanted; infinity while only a message can change anything."""
        return math.inf if self._dead else min(self._script.next, self._due())

    def _due(self) -> float:
        if self._hang is not None:
            return min(self._hang.until, self._work.send_at if self._work is not None else math.inf)
        moment = min(self._absence[0], self._download[1].due if self._download is not None else math.inf)
        if self._work is not None:
            moment = min(moment, self._work.send_at, self._work_due(self._work))
        return moment

    @property
    def frozen_until(self) -> float | None:
        """While the whole process should be stopped: when it should go on."""
        if self._hang is None or self.spec.suspend_by != "signal":
            return None
        # a process that is stopped could neither send an update nor tell its last word
        send_at = self._work.send_at if self._work is not None else math.inf
        return min(self._hang.until, send_at, self._script.killed_at)

    @property
    def state(self) -> State:
        if self._dead:
            return State.KILLED
        if self._hang is not None:
            return State.SUSPENDED
        if self._work is not None:
            if self._work.waits:
                return State.WAITING
            return State.TRAINING if self._work.update is None else State.UPLOADING
        return State.IDLE if self._download is None else State.DOWNLOADING

    @property
    def awake_since(self) -> float:
        """When it was back, the last time that it hung."""
        return self._awake_since

    @property
    def dies_at(self) -> float:
        """When the script kills it."""
        return self._script.killed_at

    def beat(self) -> Beat:
        """A heartbeat, which carries the events since the last message."""
        return msgspec.structs.replace(self.standing(), events=self.take_events())

    def standing(self) -> Beat:
        """A heartbeat that tells of no events."""
        work, download = self._work, self._download
        holding = self._inbox or (download[0] if download is not None else work.train if work is not None else None)
        return Beat(
            device=self.spec.name,
            state=self.state.value,
            ticket=holding.ticket if holding is not None else 0,
            finished=self._finished,
            trains=self._trains,
            progress=work.done / work.steps if work is not None else 0.0,
            drops=self._drops,
        )

    def take_events(self) -> tuple[dict[str, object], ...]:
        events = tuple(as_table(event) for event in self._events)
        self._events.clear()
        return events

    # ---- download

    def _start_download(self, train: Train, moment: float, now: float) -> None:
        in_hand = {self._work.train.ticket if self._work is not None else 0}
        in_hand.add(self._download[0].ticket if self._download is not None else 0)
        if train.ticket in in_hand or train.ticket <= self._finished:
            return  # sent again although we have it, or had it
        if train.ticket == self._ticket:
            self._attempt += 1
        else:
            self._ticket, self._attempt = train.ticket, 0
            self._number = train.number
        gone, back = next(self.spec.absences(moment), _NEVER)
        moment = back if gone <= moment else moment  # nobody is there to receive it
        way = self._way_down(train, moment)
        if self._hang is not None and way.due <= self._hang.started:  # due before it went, and taken up after that
            way = self._way_down(train, self._hang.until)
        self._download, self._taken = (train, way), now

    def _way_down(self, train: Train, moment: float) -> Transfer:
        if self._is_own(train):
            return _at_once(moment)
        fate = scripted(self._timetable.download(self._number, self._attempt), self.spec.script, moment)
        return transfer(self.spec.down, train.model.nbytes, fate, moment, self.spec.absences, self._rates)

    def _end_download(self, now: float) -> None:
        assert self._download is not None
        train, way = self._download
        self._download = None
        if not self._is_own(train):
            self._note(
                Downloaded(
                    t=now, device=self.spec.name, ticket=train.ticket, job=self._number, attempt=self._attempt,
                    sent=way.started, asked=way.asked, obtained=max(way.due, self._taken) - way.started,
                    bytes=way.bytes, dropped=way.dropped, held=way.held or None,
                )
            )  # fmt: skip
        moment = max(way.due, self._awake_since)
        if way.dropped:
            self._drops += 1
            if self._base is not None and self._work is None and train.job is not None:
                # the ticket is new, the model is not: the update will say which one it is based on
                old = msgspec.structs.replace(train, version=self._base.version, model=self._base.model)
                self._start_work(old, train.job, moment)
            return
        if self._work is not None:
            self._abandon(self._work, now)
            self._work = None
        if train.taken is not None:
            self._memory = self._memory or Remembered(train.model.size)
            self._memory.told(train.taken)
        if train.job is None:
            self._finished = train.ticket  # the final model: the next heartbeat says that it is here
            return
        self._base = train if self.spec.on_lost_download == "old_base" else None
        self._start_work(train, train.job, moment)

    def _abandon(self, work: Work, now: float) -> None:
        work.computing.close()
        name, ticket, pace = self.spec.name, work.train.ticket, work.pace
        if work.update is None:
            event = Abandoned(
                t=now, device=name, ticket=ticket, steps=work.done, seconds=pace.obtained(now),
                checks=pace.checks, misses=pace.misses, use=pace.use(),
            )  # fmt: skip
        else:  # in its upload: the computing has been told before
            seconds = pace.obtained(work.update.finished)
            event = Abandoned(t=now, device=name, ticket=ticket, steps=work.done, seconds=seconds, checks=0, misses=[])
        self._note(event)

    # ---- training

    def _start_work(self, train: Train, job: Job, moment: float) -> None:
        number, steps = self._number, job.steps_over(self._samples)
        seconds_per_sample, curve = self.spec.seconds_per_sample, self._curve
        recorded = self._timetable.step_seconds(number)
        if recorded is not None:  # what was recorded has its phases in it
            seconds_per_sample, curve = recorded * steps / job.samples_after(steps, self._samples), Curve()
        pace = Pace(
            moment, seconds_per_sample, lambda steps: job.samples_after(steps, self._samples),
            curve, self._meter(), steps=steps, ahead=self._ahead, grain=self._grain, enforced=self._paced,
        )  # fmt: skip
        self._work = Work(
            train=train, number=number, lead=self._lead, steps=steps,
            computing=self._trainer(job, train.model, number), pace=pace, started=moment,
            suspension=self._timetable.suspension(number),
            granted=self._grant if self._grant is not None and self._grant.ticket == train.ticket else None,
        )  # fmt: skip

    def _work_due(self, work: Work) -> float:
        """When something ends, or the next step should begin."""
        if work.update is not None:
            return work.upload.due if work.upload is not None else work.retry_at
        if work.suspends_now:
            return work.pace.ended(work.done)
        if work.done == work.steps:  # computed ahead, its way out can be prepared ahead, unless the end will move
            ended = work.pace.ended(work.done)
            return ended - self._lead if ended <= min(self._absence[0], self._script.killed_at) else math.inf
        return work.pace.begins(work.done) if self._paced else math.inf

    def _advance_work(self, work: Work, now: float) -> None:
        if work.update is None:
            if work.suspends_now:
                self._fall_asleep(work, work.pace.ended(work.done))
            elif work.done == work.steps:
                self._finish_training(work, work.pace.ended(work.done), now)
        elif work.upload is None:
            self._start_upload(work, work.retry_at)
        else:
            self._end_upload(work, work.upload, now)

    def _fall_asleep(self, work: Work, moment: float) -> None:
        assert work.suspension is not None
        seconds = work.suspension.seconds
        work.suspension = None
        work.computing.pause()
        self._hang = Hang(started=moment, until=moment + seconds, asked=seconds)

    def _go_away(self) -> None:
        """The device is away for a while, whatever it does."""
        (gone, back), self._absence = self._absence, next(self._absences, _NEVER)
        started = max(gone, self._awake_since)
        if back <= started:
            return  # it hung for all of it
        work = self._work
        if work is not None and work.update is None:
            work.computing.pause()
        self._hang = Hang(started=started, until=back, asked=back - started, away=True)

    def _wake_up(self, moment: float, now: float) -> None:
        assert self._hang is not None
        hang, self._hang, self._awake_since = self._hang, None, moment
        work = self._work if self._work is not None and self._work.update is None else None
        if work is not None:
            work.computing.resume()
            work.pace.hold(hang.started, moment)
        self._note(
            Suspended(
                t=now, device=self.spec.name, ticket=work.train.ticket if work is not None else 0,
                steps=work.done if work is not None else 0, asked=hang.asked, obtained=now - hang.started,
                away=hang.away,
            )
        )  # fmt: skip
        if self._inbox is not None:
            train, self._inbox = self._inbox, None
            self._start_download(train, max(moment, train.sent), now)

    def _finish_training(self, work: Work, moment: float, now: float) -> None:
        ticket = work.train.ticket
        self._finished = ticket
        self._note(
            Trained(
                t=max(now, moment), device=self.spec.name, ticket=ticket, steps=work.steps,
                asked=work.pace.asked(work.steps), obtained=work.pace.obtained(moment),
                checks=work.pace.checks, misses=work.pace.misses, use=work.pace.use(),
            )
        )  # fmt: skip
        delta, since = self._to_upload(work.train, work.computing.result())
        work.update = Update(
            device=self.spec.name, ticket=ticket, version=work.train.version, delta=delta, since=since,
            samples=self._samples, steps=work.steps, started=work.started, finished=moment, due=moment,
            loss=work.losses / work.steps if math.isfinite(work.losses) else None,
        )  # fmt: skip
        if work.waits:  # ``retry_at`` is never until a grant comes
            self.outbox.append(Ask(device=self.spec.name, ticket=ticket, due=moment, trains=self._trains))
        else:
            self._start_upload(work, moment if work.granted is None else max(moment, work.granted.sent))

    def _to_upload(self, train: Train, delta: Vector) -> tuple[Vector, int]:
        """The update; or its difference to what the aggregator has, and the ticket of that. Once for each ticket."""
        if train.taken is None or self._memory is None:
            return delta, 0
        return self._memory.difference(train.ticket, delta)

    # ---- upload

    def _start_upload(self, work: Work, moment: float) -> None:
        assert work.update is not None
        work.last = self._script.killed_at
        if self._is_own(work.train):
            work.upload = _at_once(moment)
            return
        fate = scripted(self._timetable.upload(work.number, work.attempt), self.spec.script, moment)
        size, link = work.update.delta.nbytes, self.spec.up
        if work.granted is not None:  # what a recorded upload took was the rate that it was granted then
            link = replace(link, mbit=work.granted.rate / 1e6, spread=0.0, trace=None)
            fate = replace(fate, seconds=None)
        work.upload = transfer(link, size, fate, moment, self.spec.absences, self._rates)

    def _send(self, work: Work) -> None:
        """To the aggregator's process, which keeps it until it is due: by then the transport has done its part."""
        assert work.update is not None
        assert work.upload is not None
        work.sent = True
        self.outbox.append(msgspec.structs.replace(work.update, due=work.upload.due, trains=self._trains))

    def _end_upload(self, work: Work, way: Transfer, now: float) -> None:
        assert work.update is not None
        if self._is_own(work.train):
            self._work = None
            return
        self._note(
            Uploaded(
                t=now, device=self.spec.name, ticket=work.train.ticket, job=work.number, attempt=work.attempt,
                sent=way.started, asked=way.asked, obtained=way.due - way.started, bytes=way.bytes, dropped=way.dropped,
                held=way.held or None,
                waited=(way.started - work.update.finished or None) if work.granted and not work.attempt else None,
            )
        )  # fmt: skip
        if not way.dropped:
            self._work = None
            return
        self._drops += 1
        work.attempt += 1
        if self.spec.on_drop == "give_up":
            self._work = None  # the next heartbeat shows a finished job that is not held any more
        elif self.spec.on_drop == "next_tick":
            work.upload = None
            tick = self.spec.tick
            assert tick is not None  # a profile with on_drop = next_tick has one
            work.retry_at = next_tick(way.due, tick)
        else:
            self._start_upload(work, way.due)

    def _is_own(self, train: Train) -> bool:
        return book_of(train.ticket) == self.own_book

    def _note(self, event: Event) -> None:
        self._events.append(event)


def _at_once(moment: float) -> Transfer:
    """From a head to itself, or back."""
    return Transfer(started=moment, due=moment, asked=0.0, bytes=0, dropped=False)
