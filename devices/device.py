"""One device as a state machine: messages and the time go in, updates and events come out. It does no I/O.

States: a job is downloaded (``downloads.py``), trained (``jobs.py``), kept until the strategy grants a rate if it must
be, and uploaded (``upload_retry.py``). A Train that arrives while the device is busy is downloaded beside the old work
and replaces it at the end of that download; if the download is dropped, the old work continues. A Train without a job
is the final model, which ends all work. A kill by the script ends everything.

Order: ``_upcoming`` lists what happens next, with the moment at which each thing is due. ``due``, ``wants_step`` and
``advance`` all read this one list. The earliest entry comes first, however late the process wakes; simultaneous entries
keep their order in the list. A step in the list is computed by the process. It delays only an absence that begins after
it: until the step is computed, neither the absence nor anything after the absence happens.

Time (ADR 7): a thing is due when the thing before it was due plus its duration. The moment at which the process woke
does not count. Only a step that was computed too late moves what follows it. So the wait for a core is absorbed while
there is slack, and it never adds up.

Standing still: the fault timetable (ADR 5) plans a *suspension* for a step of a job; a Train that arrives in it waits
for its end. An *absence* comes from the availability trace or from the script, at any moment, and is known beforehand:
transfers count it in from their start. Both move the deadlines of computing when they are over.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import itemgetter
from typing import TypeAlias

import msgspec

from devices import invariants
from devices.compute.trainer import Trainer
from devices.downloads import Downloads
from devices.jobs import Jobs, Meter
from devices.route import Route
from devices.suspensions import Suspensions
from devices.upload_retry import Uploads
from devices.work import State, Work
from testbed.emulation.faults import Timetable
from testbed.history.trace import DeviceEvent, Scripted, Suspended
from testbed.profile.fleet import DeviceSpec
from testbed.profile.script import Script
from testbed.wire.messages import Ask, Base, Grant, Heartbeat, Train, Update
from testbed.wire.training_job import Job

Action: TypeAlias = Callable[[float], None]
"""Does something that is due. Its argument is the present moment, which may be later."""
Entry: TypeAlias = tuple[float, Action | None]
"""When something is due, and how to do it. None: the next step is due, which the process computes (``step``)."""


class Device:
    """One emulated device. All moments are emulated seconds."""

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
        replays: bool = False,
        whole: bool = False,
    ) -> None:
        """Make a device that is idle at ``begins``: the start of the run, or the moment of a rejoin.

        An update is handed to the transport ``lead`` seconds before it is due. A step may be computed ``ahead`` seconds
        early. ``grain``: see Pace. ``replays``: it meets recorded delays, perhaps behind its recording. ``whole``: the
        steps of a job, up to its suspension or its end, are computed as one step.
        """
        self.spec = spec
        self._lead, self._replays = lead, replays
        self._script, self._dead = Script(spec.script, begins), False
        self._events: list[DeviceEvent] = []
        self._route = Route(spec, timetable)
        self._downloads = Downloads(spec.name, self._route, self._events.append, begins)
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
            whole=whole,
        )
        self._uploads = Uploads(spec, self._route, self._events.append)
        self._suspensions = Suspensions(spec, begins)
        self._work: Work | None = None
        self._last: Work | None = None
        """The last finished job, if its update is kept after the upload."""
        self._base: Train | Base | None = None
        """The last model, if the device trains it again when a download is lost."""
        self._inbox: Train | None = None
        """A Train that arrived during a suspension."""
        self._finished = 0
        self._trains = self._final_models = 0
        self._grant: Grant | None = None
        """The last one; it may arrive before the model that it is for."""
        self.outbox: list[Update | Ask] = []
        self._agenda: list[Entry] | None = None
        """What ``_upcoming`` returned last; None: something has changed since."""

    # ---- what goes in

    def receive(self, train: Train, now: float) -> None:
        """Accept a Train from the transport. Its transfer over the emulated link began when it was sent."""
        if self._dead:
            return
        self._trains += 1
        self._agenda = None
        suspension = self._suspensions.current
        if suspension is not None and not suspension.away:
            self._inbox = train
        else:
            self._download(train, train.sent, now)

    def receive_base(self, base: Base) -> None:
        """Accept the model that this device had before its process was restarted."""
        self._base = base

    def receive_grant(self, grant: Grant) -> None:
        """Accept a rate. The upload begins when it was granted or computed, not when this process saw the grant."""
        if self._dead:
            return
        self._grant, work, self._agenda = grant, self._work, None
        if work is None or work.train.ticket != grant.ticket:
            return  # for a model that is still being downloaded, or for work that was abandoned
        if work.waits and work.update is not None:
            work.retry_at = max(work.update.finished, grant.sent)
        work.granted = work.granted or grant

    def carry(self, ticket: int, moment: float, *, own: bool) -> bool:
        """Continue a job of a former cluster head for the present one. Return False if the device cannot.

        An update that the former head has got already is uploaded again, from ``moment`` on. ``own``: the device is the
        head now, so that the update goes over no link. It then has no job that is still being downloaded: the download
        may be lost, and only a head could send it again.
        """
        if self._dead:
            return False
        self._agenda = None
        work, coming = self._work, self._inbox or self._downloads.train
        if coming is not None and coming.ticket == ticket:
            return not own
        if work is None and self._last is not None:
            work = self._last
        if work is None or work.train.ticket != ticket:
            return False
        if own:
            self._route.own_ticket = ticket
        if work.update is not None:
            was_local = work.upload is not None and work.upload.is_local
            work.sent = False
            if own or was_local or self._work is None:
                work.attempt += self._work is None and not was_local
                self._uploads.begin(work, max(moment, work.update.finished))
        self._work = work
        return True

    def advance(self, now: float) -> None:
        """Do everything that is due, except computing a step."""
        if self._dead:
            return
        self._advance(min(now, self._script.killed_at))
        while self._script.next <= now and not self._dead:
            event = self._script.pop()
            if event.do == "kill":
                self._die(event.at)
            else:  # its effect on links, computing and the device was known beforehand
                self._events.append(
                    Scripted(
                        t=event.at,
                        device=self.spec.name,
                        do=event.do,
                        seconds=event.seconds,
                        value=event.value,
                        how=event.how,
                    )
                )

    def _die(self, moment: float) -> None:
        """Stop, and ignore everything from now on."""
        self.stop(moment)
        self._work = self._last = self._inbox = self._agenda = None
        self._suspensions.stop()
        self._downloads.stop()
        self._dead = True

    def step(self) -> None:
        """Compute one local step, at the speed of the host. Call :meth:`stepped` with the time after it."""
        assert self._work is not None
        self._work.compute()
        self._agenda = None

    def stepped(self, now: float) -> None:
        assert self._work is not None
        self._work.pace.finished_step(self._work.done, now, self._jobs.meter())
        self._agenda = None

    def progressed(self, loss: float, now: float) -> None:
        """Count a step that the worker process has computed."""
        assert self._work is not None
        self._work.losses += loss
        self._work.done += 1
        self.stepped(now)

    def stop(self, now: float) -> None:
        """Report what is under way at the end of the run, so that the seconds spent on it do not count as idle.

        Everything that is due by now happens first: an update that the aggregator has applied must not be missing.
        """
        self.advance(now)
        self._agenda = None
        if self._suspensions.current is not None:
            self._wake_up(now, now)
        if self._work is not None and self._work.update is None:
            self._jobs.abandon(self._work, now)

    # ---- the order of simultaneous things

    def _upcoming(self) -> list[Entry]:
        """Return what happens next, the earliest first. The list is kept until something changes."""
        if self._agenda is None:
            self._agenda = self._in_order()
        return self._agenda

    def _in_order(self) -> list[Entry]:
        """Return what happens next, the earliest first. Simultaneous entries keep the order of these lines."""
        work, suspension = self._work, self._suspensions.current
        entries: list[Entry] = []
        if work is not None and work.update is not None:
            entries.append((work.send_at, self._send))
        if suspension is not None:
            entries.append((suspension.until, self._end_suspension))
        else:
            if work is not None:
                entries.append(self._next_of(work))
            entries.append((self._downloads.due, self._end_download))
            entries.append((self._suspensions.next_absence, self._go_away))
        entries.sort(key=itemgetter(0))
        return entries

    def _next_of(self, work: Work) -> Entry:
        """Return the next thing in a job: something ends, or a step should begin."""
        if work.update is not None:
            if work.upload is not None:
                return work.upload.due, self._end_upload
            return work.retry_at, self._begin_upload
        if work.suspends_now:
            return work.pace.ended(work.done), self._suspend
        if work.done < work.steps:
            return work.pace.begins(work.done) if self._jobs.paced else math.inf, None
        # all steps are computed, perhaps ahead: the upload can be prepared ahead, too, unless the end will move
        ended = work.pace.ended(work.done)
        certain = ended <= min(self._suspensions.next_absence, self._script.killed_at)
        return ended - self._lead if certain else math.inf, self._finish_training

    def _advance(self, now: float) -> None:
        while (action := self._next_action(now)) is not None:
            action(now)
            self._agenda = None

    def _next_action(self, now: float) -> Action | None:
        """Return the first action that is due. None: there is none, or a step must be computed before an absence."""
        step_is_due = False
        for due, action in self._upcoming():
            if due > now or (step_is_due and action == self._go_away):
                return None
            if action is not None:
                return action
            step_is_due = True
        return None

    def wants_step(self, now: float) -> bool:
        """Return whether the process should compute the next local step now: its time comes before the next absence."""
        for due, action in self._upcoming():
            if due > now or action == self._go_away:
                return False
            if action is None:
                return True
        return False

    def is_at_an_only_step(self, now: float) -> bool:
        """Return whether :meth:`wants_step`, and the job has no other step and needs no grant."""
        work = self._work
        return work is not None and work.steps == 1 and not work.train.grant and self.wants_step(now)

    def due(self) -> float:
        """Return when :meth:`advance` or :meth:`step` is wanted next; infinity if only a message changes anything."""
        return math.inf if self._dead else min(self._script.next, self._due())

    def _due(self) -> float:
        return self._upcoming()[0][0]

    # ---- what comes out

    @property
    def frozen_until(self) -> float | None:
        """When a process that suspends itself by a signal should continue; None if it should not stop."""
        if self._suspensions.current is None or self.spec.suspend_by != "signal":
            return None
        # a stopped process could neither send an update nor its last heartbeat
        return min(self._due(), self._script.killed_at)

    @property
    def state(self) -> State:
        if self._dead:
            return State.KILLED
        if self._suspensions.current is not None:
            return State.SUSPENDED
        if self._work is not None:
            if self._work.waits:
                return State.WAITING
            return State.TRAINING if self._work.update is None else State.UPLOADING
        return State.IDLE if self._downloads.train is None else State.DOWNLOADING

    @property
    def own_range(self) -> int | None:
        """The ticket range of the cluster head on this device: its tickets go over no link. None: it is no head."""
        return self._route.own_range

    @own_range.setter
    def own_range(self, ticket_range: int | None) -> None:
        self._route.own_range, self._route.own_ticket = ticket_range, 0

    @property
    def gradient(self) -> Update | None:
        """The last update that the device has computed and keeps; None if there is none."""
        kept = (work for work in (self._work, self._last) if work is not None and work.train.kept)
        return next((work.update for work in kept if work.update is not None), None)

    @property
    def awake_since(self) -> float:
        """When the last suspension ended."""
        return self._suspensions.awake_since

    @property
    def dies_at(self) -> float:
        """When the script kills the device."""
        return self._script.killed_at

    def heartbeat(self, now: float = math.inf) -> Heartbeat:
        """Return a heartbeat of this moment with the events since the last message."""
        return msgspec.structs.replace(self.heartbeat_without_events(now), events=self.take_events())

    def heartbeat_without_events(self, now: float = math.inf) -> Heartbeat:
        """Return a heartbeat, and keep the events for a later message."""
        work = self._work
        current = self._inbox or self._downloads.train or (work.train if work is not None else None)
        return Heartbeat(
            device=self.spec.name,
            state=self.state.value,
            ticket=current.ticket if current is not None else 0,
            finished=self._finished,
            trains=self._trains,
            progress=work.done_by(now) / work.steps if work is not None else 0.0,
            drops=self._downloads.drops + self._uploads.drops,
        )

    @property
    def incidents(self) -> int:
        """Counts what an aggregator learns from heartbeats only: lost transfers, and final models that have arrived."""
        return self._downloads.drops + self._uploads.drops + self._final_models

    def take_events(self) -> tuple[DeviceEvent, ...]:
        """Return the events since the last call."""
        events = tuple(self._events)
        self._events.clear()
        return events

    def validate(self) -> None:
        """Raise AssertionError if an invariant is broken. May be called between any two other calls."""
        work, download, suspension = self._work, self._downloads.train, self._suspensions.current
        invariants.check_state(self.state, work, download, suspension)
        invariants.check_tickets(work, download, self._finished)
        invariants.check_suspension(suspension, work, self._inbox)
        invariants.check_outbox(self.outbox, self.spec.name, self._finished)
        invariants.check_times(due for due, _ in self._in_order())
        if work is not None:
            invariants.check_work(work, self._finished)
            self._jobs.validate(work)
        invariants.check_agenda(self._upcoming(), self._in_order())

    # ---- download

    def _download(self, train: Train, moment: float, now: float) -> None:
        download, work = self._downloads.train, self._work
        current = (download.ticket if download is not None else 0, work.train.ticket if work is not None else 0)
        if train.ticket in current or train.ticket <= self._finished:
            return  # a resend of a ticket that has already arrived
        awake = self._suspensions.current is None
        if self._replays and awake and work is not None and work.arrived_between(moment, now):
            # a strict replay that is behind its recording sends as early as recorded, but only after this arrival
            self._end_upload(now)
        self._downloads.begin(train, moment, now, self._suspensions.current)

    def _end_download(self, now: float) -> None:
        train, transfer = self._downloads.end(now)
        moment = max(transfer.due, self._suspensions.awake_since)
        if transfer.dropped:
            if self._base is not None and self._work is None and train.job is not None:
                # the ticket is new, the model is not: the update names the version that it is based on
                old = msgspec.structs.replace(train, version=self._base.version, model=self._base.model)
                self._start_work(old, train.job, moment)
            return
        if self._work is not None:
            self._jobs.abandon(self._work, now)
            self._end_work(self._work)
        self._jobs.update_baseline(train)
        if train.job is None:
            self._finished = train.ticket  # the final model: the next heartbeat reports that it has arrived
            self._final_models += 1
            return
        self._base = train if self.spec.on_lost_download == "old_base" else None
        self._start_work(train, train.job, moment)

    # ---- training

    def _start_work(self, train: Train, job: Job, moment: float) -> None:
        self._work = self._jobs.begin(train, job, self._downloads.number, moment, self._grant)

    def _suspend(self, now: float) -> None:
        work = self._work
        assert work is not None
        assert work.suspension is not None
        self._suspensions.suspend(work.pace.ended(work.done), work.suspension.seconds)
        work.suspension = None
        work.computing.pause()

    def _go_away(self, now: float) -> None:
        if self._suspensions.go_away() and self._work is not None and self._work.update is None:
            self._work.computing.pause()

    def _end_suspension(self, now: float) -> None:
        assert self._suspensions.current is not None
        self._wake_up(self._suspensions.current.until, now)

    def _wake_up(self, moment: float, now: float) -> None:
        suspension = self._suspensions.wake_up(moment)
        work = self._work if self._work is not None and self._work.update is None else None
        steps = work.done_by(suspension.started) if work is not None else 0
        if work is not None:
            work.computing.resume()
            work.pace.suspend(suspension.started, moment)
        self._events.append(
            Suspended(
                t=now,
                device=self.spec.name,
                ticket=work.train.ticket if work is not None else 0,
                steps=steps,
                asked=suspension.asked,
                obtained=now - suspension.started,
                away=suspension.away,
            )
        )
        if self._inbox is not None:
            train, self._inbox = self._inbox, None
            self._download(train, max(moment, train.sent), now)

    def _finish_training(self, now: float) -> None:
        work = self._work
        assert work is not None
        moment = work.pace.ended(work.done)
        self._finished = work.train.ticket
        self._jobs.finish(work, moment, now, over_link=not self._route.is_own(work.train))
        if work.waits:  # ``retry_at`` is infinite until a grant comes
            self.outbox.append(Ask(device=self.spec.name, ticket=work.train.ticket, due=moment, trains=self._trains))
        else:
            self._uploads.begin(work, moment if work.granted is None else max(moment, work.granted.sent))

    # ---- upload

    def _begin_upload(self, now: float) -> None:
        assert self._work is not None
        self._uploads.begin(self._work, self._work.retry_at)

    def _send(self, now: float) -> None:
        """Hand the update to the transport ahead of its time. The aggregator keeps it until it is due."""
        work = self._work
        assert work is not None
        assert work.update is not None
        assert work.upload is not None
        work.sent = True
        self.outbox.append(msgspec.structs.replace(work.update, due=work.upload.due, trains=self._trains))

    def _end_upload(self, now: float) -> None:
        assert self._work is not None
        if self._uploads.end(self._work, now):
            self._end_work(self._work)

    def _end_work(self, work: Work) -> None:
        """Become idle. The job is kept if its update is computed and may be asked for again."""
        self._work = None
        if work.update is not None and work.train.kept:
            self._last = work
