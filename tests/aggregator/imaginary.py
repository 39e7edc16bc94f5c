"""A fleet of imaginary devices on a manual clock: drives a real engine with a real strategy, without processes.

Device i minimises ½‖x − c_i‖² by local SGD from the model that it was sent. It loses downloads, gives uploads up, dies,
comes back and sends heartbeats, as a real one does. The next event is the earliest of a queue of (moment, sequence,
action) and the wake of the strategy, so a run depends only on its arguments.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import structs

from aggregator.engine.engine import Engine
from aggregator.strategy import DeviceInfo, Strategy
from devices.baseline import Baseline
from devices.link import next_tick
from testbed.common.clock import ManualClock
from testbed.history import trace
from testbed.wire.messages import Ask, Grant, Heartbeat, JoinCluster, SendGradient, Train, TrainsSent, Update, Vector
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import PlainForecast, check_conservation, validated

TRANSPORT_SECONDS = 0.01
"""A Train takes this long, so heartbeats cross it."""

MOST_AT_ONE_MOMENT = 1000
"""Events. A strategy that asks for a wake in the past, again and again, would block the test."""


@dataclass(kw_only=True)
class ImaginaryDevice:
    """The properties and the state of a device. Trains and jobs are counted from 1, restarts included."""

    name: str
    optimum: Vector
    samples: int = 10
    seconds_per_step: float = 0.1
    down: float = 0.1
    up: float = 0.1
    lost_downloads: Collection[int] = ()
    """Numbers of the Trains whose download is lost."""
    given_up: Collection[int] = ()
    """Numbers of the jobs whose upload is given up."""
    lost_uploads: Collection[int] = ()
    """Numbers of the attempts to upload that are lost."""
    on_drop: str = "retry"
    """After a lost upload: retry, next_tick or give_up, as in a profile. Ticks are seconds."""
    keeps_base: bool = False
    """Whether it trains on the model that it has if a download is lost, as with ``on_lost_download = "old_base"``."""
    repeats: bool = False
    """Whether it sends every update twice."""

    trains_ever: int = field(default=0, init=False)
    uploads_ever: int = field(default=0, init=False)
    jobs_ever: int = field(default=0, init=False)
    restarts: int = field(default=0, init=False)
    """Actions that were scheduled before the last restart have no effect."""
    trains: int = field(default=0, init=False)
    downloading: int = field(default=0, init=False)
    working: int = field(default=0, init=False)
    finished: int = field(default=0, init=False)
    grant: Grant | None = field(default=None, init=False)
    waiting: Update | None = field(default=None, init=False)
    """The update that waits for a grant."""
    last: Update | None = field(default=None, init=False)
    """The last update that it has computed."""
    signalled: int = field(default=0, init=False)
    """The ticket of the last signal of a clustering."""
    answering: int = field(default=0, init=False)
    """The same, while the gradient is uploaded."""
    baseline: Baseline | None = field(default=None, init=False)
    """Kept over restarts."""
    base: Train | None = field(default=None, init=False)
    """The last one that arrived, if the device keeps it."""

    def reset(self) -> None:
        self.restarts += 1
        self.trains = self.downloading = self.working = self.finished = self.signalled = self.answering = 0
        self.grant = self.waiting = self.last = self.base = None

    def result(self, train: Train) -> Vector:
        """Return the delta of local SGD with the momentum and the proximal term of the job."""
        base, job = train.model.astype(np.float64), train.job
        x, velocity = base.copy(), np.zeros_like(base)
        for _ in range(job.steps_over(self.samples)):
            velocity = job.momentum * velocity + (x - self.optimum) + job.proximal * (x - base)
            x -= job.lr * velocity
        return (x - base).astype(np.float32)


class _ExactForecast(PlainForecast):
    """Knows how long each job of the fleet will take."""

    def __init__(self, bandwidth: float, devices: Mapping[str, ImaginaryDevice]) -> None:
        super().__init__(bandwidth=bandwidth)
        self._devices = devices

    def seconds(self, device: str, job: Job) -> float:
        known = self._devices[device]
        return TRANSPORT_SECONDS + known.down + known.seconds_per_step * job.steps_over(known.samples)


class Fleet:
    """Runs a strategy on imaginary devices. ``trace`` contains all events; the engine is validated after each."""

    def __init__(
        self,
        strategy: Strategy,
        devices: Sequence[ImaginaryDevice],
        *,
        seed: int = 0,
        job: Job | None = None,
        heartbeat_seconds: float = 1.0,
        bandwidth: float = 1000.0,
    ) -> None:
        self.devices = {device.name: device for device in devices}
        self.clock = ManualClock()
        self.trace: list[trace.Event] = []
        self.engine = validated(
            Engine(
                strategy,
                np.zeros(devices[0].optimum.size, np.float32),
                job=job or Job(steps=5, lr=0.2),
                random=np.random.default_rng(seed),
                send=self._send,
                record=self.trace.append,
                forecast=_ExactForecast(bandwidth, self.devices),
            )
        )
        self._heartbeat_seconds = heartbeat_seconds
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        for device in devices:
            self.restart(device.name)
        self.engine.start(self.clock.now())

    @property
    def optimum(self) -> Vector:
        """The minimum of Σ n_i·½‖x − c_i‖²."""
        samples = [device.samples for device in self.devices.values()]
        mean: Vector = np.average([device.optimum for device in self.devices.values()], axis=0, weights=samples)
        return mean

    def distance(self) -> float:
        """Distance of the model from the optimum."""
        return float(np.linalg.norm(self.engine.model - self.optimum))

    # ---- running

    def at(self, moment: float, action: Callable[[str], None], device: str) -> None:
        """Schedule something for a device: ``fleet.at(3.0, fleet.kill, "a")``."""
        self._schedule(moment, lambda: action(device))

    def run(self, until: float, check: Callable[[Engine], None] = lambda _: None) -> None:
        """Run up to the moment ``until``. ``check`` is called after every event."""
        engine, at_this_moment = self.engine, 0
        while (moment := self._next()) <= until:
            at_this_moment = at_this_moment + 1 if moment == self.clock.now() else 0
            assert at_this_moment < MOST_AT_ONE_MOMENT, f"time stands still at {moment}"
            self.clock.advance_to(moment)
            if engine.wake_at is not None and engine.wake_at <= moment:
                engine.wake(moment)
            else:
                heapq.heappop(self._queue)[2]()
            check_conservation(engine)
            check(engine)
        self.clock.advance_to(until)

    def _next(self) -> float:
        moment = self._queue[0][0] if self._queue else float("inf")
        wish = self.engine.wake_at
        return moment if wish is None else min(moment, max(wish, self.clock.now()))

    def _schedule(self, moment: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (moment, next(self._sequence), action))

    def _later(self, seconds: float, device: ImaginaryDevice, action: Callable[[], None]) -> None:
        """Schedule an action that has no effect if the device dies before."""
        restarts = device.restarts
        self._schedule(self.clock.now() + seconds, lambda: action() if device.restarts == restarts else None)

    # ---- faults

    def kill(self, name: str) -> None:
        """Let a device die; the aggregator notices it at once."""
        self.devices[name].reset()
        self._drop(name)

    def restart(self, name: str) -> None:
        """Start a device again, whether the aggregator noticed its death or not."""
        device = self.devices[name]
        device.reset()
        self._join(device)
        self._later(self._heartbeat_seconds, device, lambda: self._send_heartbeat(device))

    def silence(self, name: str) -> None:
        """Let the aggregator drop a device that works on. Its next message brings it back."""
        self._drop(name)

    def _drop(self, name: str) -> None:
        if self.engine.is_present(name):
            self.engine.leave(name, "it is gone", self.clock.now())

    def _join(self, device: ImaginaryDevice) -> None:
        info = DeviceInfo(name=device.name, samples=device.samples, keeps_base=device.keeps_base)
        self.engine.join(info, self.clock.now(), device.trains)

    # ---- jobs

    def _send(self, name: str, message: Train | SendGradient | TrainsSent | Grant | JoinCluster) -> None:
        """Deliver a message. (A head computes alone for its cluster.)"""
        device = self.devices[name]
        if isinstance(message, Grant):
            self._later(TRANSPORT_SECONDS, device, lambda: self._receive_grant(device, message))
        elif isinstance(message, Train):
            self._later(TRANSPORT_SECONDS, device, lambda: self._receive(device, message))
        elif isinstance(message, SendGradient):
            self._later(TRANSPORT_SECONDS, device, lambda: self._receive_signal(device, message))
        elif isinstance(message, TrainsSent):
            self._later(TRANSPORT_SECONDS, device, lambda: self._receive_count(device, message))

    def _receive_signal(self, device: ImaginaryDevice, signal: SendGradient) -> None:
        """Upload the last update, beside the present job."""
        device.trains += 1
        if signal.ticket <= device.signalled:
            return  # sent again although it has arrived
        device.signalled, device.answering, last = signal.ticket, 0, device.last
        if last is not None:
            device.answering = signal.ticket
            device.jobs_ever += 1
            given_up = device.jobs_ever in device.given_up
            gradient = structs.replace(last, ticket=signal.ticket, due=self.clock.now() + device.up)
            self._later(device.up, device, lambda: self._end_gradient(device, gradient, given_up))

    def _end_gradient(self, device: ImaginaryDevice, gradient: Update, given_up: bool) -> None:
        if device.answering != gradient.ticket:
            return
        device.answering = 0
        for _ in range(0 if given_up else 2 if device.repeats else 1):
            self._return_if_gone(device)
            self.engine.update(gradient, self.clock.now())

    def _receive_count(self, device: ImaginaryDevice, message: TrainsSent) -> None:
        device.trains = max(device.trains, message.trains)

    def _receive_grant(self, device: ImaginaryDevice, grant: Grant) -> None:
        device.grant = grant
        if device.waiting is not None:
            self._upload(device, device.waiting)

    def _receive(self, device: ImaginaryDevice, train: Train) -> None:
        device.trains += 1
        device.trains_ever += 1
        if train.ticket in (device.downloading, device.working):
            return  # sent again although it has arrived
        device.downloading = train.ticket
        lost = device.trains_ever in device.lost_downloads
        self._later(device.down, device, lambda: self._end_download(device, train, lost))

    def _end_download(self, device: ImaginaryDevice, train: Train, lost: bool) -> None:
        if device.downloading != train.ticket:
            return  # a newer Train replaced it
        device.downloading = 0
        if not lost:
            device.base = train if device.keeps_base else None
        elif device.base is not None and not device.working:
            train = structs.replace(train, version=device.base.version, model=device.base.model)
        else:
            return  # an older job goes on, if there is one
        device.working, device.waiting = train.ticket, None
        device.jobs_ever += 1
        given_up = device.jobs_ever in device.given_up
        if train.baseline is not None:
            device.baseline = device.baseline or Baseline(device.optimum.size)
            if not lost:
                device.baseline.confirm(train.baseline)
        started = self.clock.now()
        seconds = device.seconds_per_step * train.job.steps_over(device.samples)
        self._later(seconds, device, lambda: self._end_training(device, train, started, given_up))

    def _end_training(self, device: ImaginaryDevice, train: Train, started: float, given_up: bool) -> None:
        if device.working != train.ticket:
            return
        device.finished = train.ticket
        delta, since = device.result(train), 0
        if train.baseline is not None and device.baseline is not None:
            delta, since = device.baseline.difference(train.ticket, delta)
        update = Update(
            device=device.name,
            ticket=train.ticket,
            version=train.version,
            delta=delta,
            since=since,
            samples=device.samples,
            steps=train.job.steps_over(device.samples),
            started=started,
            finished=self.clock.now(),
            due=self.clock.now() + device.up,
            loss=float(np.linalg.norm(train.model - device.optimum)),
        )
        device.last = update
        if not train.grant:
            self._later(device.up, device, lambda: self._end_upload(device, update, device.up, given_up))
            return
        device.waiting = update
        if device.grant is not None and device.grant.ticket == train.ticket:
            self._upload(device, update)
        else:
            self._return_if_gone(device)
            self.engine.ask(Ask(device=device.name, ticket=train.ticket, due=self.clock.now()), self.clock.now())

    def _upload(self, device: ImaginaryDevice, update: Update) -> None:
        """Upload at the granted rate."""
        if device.grant is None or device.grant.ticket != update.ticket:
            return
        device.waiting = None
        given_up = device.jobs_ever in device.given_up
        seconds = 8 * update.delta.nbytes / device.grant.rate
        self._later(seconds, device, lambda: self._end_upload(device, update, seconds, given_up))

    def _end_upload(self, device: ImaginaryDevice, update: Update, seconds: float, given_up: bool) -> None:
        if device.working != update.ticket:
            return
        device.uploads_ever += 1
        lost = device.uploads_ever in device.lost_uploads
        if lost and device.on_drop != "give_up":
            now = self.clock.now()
            wait = next_tick(now, 1.0) - now if device.on_drop == "next_tick" else 0.0
            self._later(wait + seconds, device, lambda: self._end_upload(device, update, seconds, given_up))
            return
        device.working = 0
        if lost or given_up:
            return  # the next heartbeat shows it
        for _ in range(2 if device.repeats else 1):
            self._return_if_gone(device)
            self.engine.update(update, self.clock.now())

    def _send_heartbeat(self, device: ImaginaryDevice) -> None:
        self._return_if_gone(device)
        ticket = device.answering or device.downloading or device.working
        finished = max(device.finished, device.signalled)
        self.engine.heartbeat(
            Heartbeat(device=device.name, state="", ticket=ticket, finished=finished, trains=device.trains),
            self.clock.now(),
        )
        self._later(self._heartbeat_seconds, device, lambda: self._send_heartbeat(device))

    def _return_if_gone(self, device: ImaginaryDevice) -> None:
        if not self.engine.is_present(device.name):
            self._join(device)
