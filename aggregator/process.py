"""The aggregator process: connects the engine to the socket, the clock, the evaluator and the trace."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from aggregator import status
from aggregator.arrivals import Arrivals
from aggregator.engine import Engine
from aggregator.evaluation import Evaluation
from aggregator.load import LoadMeter
from aggregator.presence import Presence
from aggregator.strategy import DeviceInfo, Strategy
from testbed import plugins, trace
from testbed.clock import WallClock
from testbed.cores import Priority, keep_freed_memory, settle
from testbed.host import UsageMeter, is_computing, pressure_seconds
from testbed.messages import (
    EVALUATOR,
    STOPPED,
    Beat,
    Hello,
    Message,
    Refused,
    Score,
    Stop,
    Train,
    Update,
    Welcome,
)
from testbed.parameters import build
from testbed.profile import Experiment
from testbed.roles import AggregatorConfig
from testbed.sockets import Hub, Unreachable
from testbed.tasks.task import Task
from testbed.wire import BadMessage, Buffer, decode, encode, largest_frame

_HOUSEKEEPING_SECONDS = 0.1
_STATUS_SECONDS = 0.25
_FAREWELL_SECONDS = 3.0
_LAST_SCORE_SECONDS = 30.0
_FLEET_SECONDS = 300.0
_FINE_SECONDS = 0.002
"""ZeroMQ waits in whole milliseconds. The last two of a wait are slept, to an absolute moment."""
_CHORE_SECONDS = 0.005
"""Replacing the status file takes a millisecond, and three on a bad day."""
_LONGEST_CHORE_WAIT_SECONDS = 0.5
_LONGEST_LEAD_SECONDS = 1.0
"""Devices send updates a little before they are due; what is due much later than now is not from a device of ours."""


def main(config: AggregatorConfig, task: Task, ready: Callable[[str], None]) -> None:
    """Run the experiment. ``ready`` is told the endpoint as soon as peers can connect."""
    settle(config.core, Priority.AGGREGATOR)
    keep_freed_memory()
    process = AggregatorProcess(config, task)
    signal.signal(signal.SIGTERM, lambda *_: process.stop("interrupted"))
    ready(process.endpoint)
    process.run()


class AggregatorProcess:
    def __init__(self, config: AggregatorConfig, task: Task) -> None:
        experiment = config.experiment
        self._config, self._experiment, self._task = config, experiment, task
        self._fleet = {device.name: device for device in config.plan.devices}
        self._hub = Hub(config.endpoint, max_bytes=largest_frame(task.size))
        self.endpoint = self._hub.endpoint
        self._trace = trace.TraceWriter(Path(config.run_folder) / "trace.jsonl")
        self._engine = Engine(
            _strategy(experiment), task.initial(), job=experiment.training,
            random=np.random.default_rng([experiment.seed, 3]), send=self._send_train, record=self._trace.write,
        )  # fmt: skip
        self._evaluation = Evaluation(experiment.evaluation.every)
        self._presence = Presence(experiment.presence.timeout)
        self._hellos: dict[str, Hello] = {}
        self._beats: dict[str, Beat] = {}
        self._stopping: str | None = None
        self._arrivals = Arrivals()
        self._clock = WallClock.starting_now()
        self._usage = UsageMeter()
        self._load = LoadMeter(self._host_now(), self._usage, pressure_seconds)
        self._running = False

    def stop(self, reason: str) -> None:
        """End the run at the next opportunity; the first reason counts."""
        self._stopping = self._stopping or reason

    def run(self) -> None:
        try:
            self._gather_fleet()
            if self._stopping is None:
                self._start()
                self._loop()
            self._finish()
        finally:  # a rule may fail: what it had seen and made by then is kept
            self._trace.close()
            self._save_model()
            self._hub.close()

    # ---- phases

    def _gather_fleet(self) -> None:
        """Wait until every process has said hello, so that time zero is the same for all."""
        expected = {*self._fleet, *self._config.canaries, EVALUATOR}
        while self._stopping is None and self._hellos.keys() != expected:
            self._receive(_HOUSEKEEPING_SECONDS)
            if self._clock.now() > _FLEET_SECONDS:
                missing = sorted(expected - self._hellos.keys())
                raise RuntimeError(f"{len(missing)} processes did not connect, {missing[0]} among them")

    def _start(self) -> None:
        experiment = self._experiment
        self._clock = WallClock.starting_now(self._config.plan.dilation)
        self._load = LoadMeter(self._host_now(), self._usage, pressure_seconds)
        self._running = True
        self._trace.write(
            trace.Header(
                t=0.0, schema=trace.SCHEMA, name=experiment.name, strategy=experiment.strategy_name,
                seed=experiment.seed, dilation=self._clock.dilation, host=platform.platform(),
                demand=self._config.plan.demand, pressure=self._config.plan.survey.pressure,
                started=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
            )
        )  # fmt: skip
        for name in self._config.canaries:
            self._send(name, Welcome(origin=self._clock.origin))
        for name in self._fleet:
            self._join(self._hellos[name], 0.0)
        self._engine.start(0.0)

    def _loop(self) -> None:
        stop, engine = self._experiment.stop, self._engine
        next_housekeeping = next_status = 0.0
        while self._stopping is None:
            now = self._clock.now()
            if now >= next_housekeeping and self._has_time(now, next_housekeeping):
                self._keep_house(now)
                next_housekeeping = now + _HOUSEKEEPING_SECONDS / self._clock.dilation
            if now >= next_status and self._has_time(now, next_status):
                status.write(
                    Path(self._config.status_file), now, self._clock.dilation, engine, self._evaluation, self._beats,
                    self._fleet,
                )  # fmt: skip
                next_status = now + _STATUS_SECONDS / self._clock.dilation
            if stop.seconds is not None and now >= stop.seconds:
                self.stop(f"{stop.seconds:g} seconds are over")
                break
            until = self._arrivals.next_due
            if now < next_housekeeping or self._has_time(now, next_housekeeping):
                until = min(until, next_housekeeping)
            if engine.wake_at is not None:
                until = min(until, engine.wake_at)
            if stop.seconds is not None:
                until = min(until, stop.seconds)
            self._wait(until)
            if engine.wake_at is not None and self._clock.now() >= engine.wake_at and self._stopping is None:
                engine.wake(self._clock.now())
            self._check_versions()

    def _has_time(self, now: float, chore: float) -> bool:
        """Whether nothing is due for the moment that files and messages take, or the chore has waited long enough."""
        free = self._clock.host_seconds(self._arrivals.next_due - now)
        return free > _CHORE_SECONDS or self._clock.host_seconds(now - chore) > _LONGEST_CHORE_WAIT_SECONDS

    def _finish(self) -> None:
        reason, ended = self._stopping or "", self._clock.now() if self._running else 0.0
        self._wake_the_frozen()
        self._say_goodbye(self._hellos.keys() - {EVALUATOR}, reason)
        self._score_last()
        self._say_goodbye(self._hellos.keys() & {EVALUATOR}, reason)
        if self._running:
            self._trace.write(self._load.report(self._host_now(), ended))
        self._trace.write(
            trace.Stopped(
                t=ended,
                reason=reason,
                version=self._engine.version,
                in_flight=self._engine.in_flight,
                silent=[name for name in self._fleet if self._engine.is_present(name) and not self._has_left(name)],
            )
        )

    def _save_model(self) -> None:
        folder = Path(self._config.run_folder) / "checkpoints"
        folder.mkdir(exist_ok=True)
        version = {"version": str(self._engine.version)}
        save_file(self._task.tensors(self._engine.model), folder / "final.safetensors", metadata=version)

    def _wake_the_frozen(self) -> None:
        """A device that is suspended by SIGSTOP cannot hear that the run is over."""
        for name, device in self._fleet.items():
            if device.suspend_by == "signal" and name in self._hellos:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._hellos[name].pid, signal.SIGCONT)

    def _has_left(self, name: str) -> bool:
        return name in self._beats and self._beats[name].state == STOPPED

    def _say_goodbye(self, names: Iterable[str], reason: str) -> None:
        """Tell peers to stop, and wait a moment for their last word: a device has events left to tell.

        Closing at once would not do for the evaluator either. A DEALER that queues only for a connection that
        exists (ZMQ_IMMEDIATE) throws away what it has not read when the connection ends.
        """
        waited_for = {name for name in names if self._send(name, Stop(reason=reason))}
        patience = self._clock.now() + _FAREWELL_SECONDS / self._clock.dilation
        while waited_for and self._clock.now() < patience:
            self._receive(_HOUSEKEEPING_SECONDS)
            waited_for = {name for name in waited_for if not self._has_left(name)}

    def _score_last(self) -> None:
        """The final model is scored, whatever the schedule says."""
        if not self._running:
            return
        engine = self._engine
        patience = self._clock.now() + _LAST_SCORE_SECONDS / self._clock.dilation
        evaluator = self._hellos[EVALUATOR].pid
        # a score that is due will never come from an evaluator that has died
        while self._evaluation.scored != engine.version and self._clock.now() < patience and is_computing(evaluator):
            if not self._evaluation.pending:
                snapshot = self._evaluation.last(engine.version, engine.made, engine.model, self._clock.now())
                if snapshot is not None and not self._send(EVALUATOR, snapshot):
                    return
            self._receive(_HOUSEKEEPING_SECONDS)

    # ---- messages in

    def _wait(self, until: float) -> None:
        """Take one message, or every update that falls due at ``until``, whichever comes first."""
        left = self._clock.host_seconds(until - self._clock.now())
        if 0.0 < left <= _FINE_SECONDS:
            self._clock.sleep_until(until)
            self._load.waited(left)
            left = 0.0
        self._receive(max(0.0, left - _FINE_SECONDS / 2))
        self._take_up_arrivals()

    def _receive(self, timeout: float) -> None:
        """Take one message, waiting up to ``timeout`` host seconds for it."""
        began = self._host_now()
        incoming = self._hub.receive(timeout)
        self._load.waited(self._host_now() - began)
        if incoming is None:
            return
        # what a device says now must not overtake its update: it would tell of a job that was given up
        self._take_up_arrivals()
        peer, frames = incoming
        try:
            self._take(peer, frames)
        except (BadMessage, trace.TraceError) as problem:
            self._refuse(peer, str(problem))

    def _take(self, peer: str, frames: list[Buffer]) -> None:
        message = decode(frames, self._task.size)
        now = self._clock.now() if self._running else 0.0
        if peer == EVALUATOR:
            self._take_from_evaluator(message, now)
        elif peer in self._config.canaries:
            self._take_from_canary(peer, message)
        elif peer not in self._fleet:
            raise BadMessage("unknown device")
        elif not isinstance(message, (Hello, Update, Beat)) or message.device != peer:
            raise BadMessage(f"a {type(message).__name__} that this device may not send")
        elif isinstance(message, Hello):
            if not message.samples or not message.cores:
                raise BadMessage("a Hello without samples or cores")
            self._hellos[peer] = message
            if self._running and self._stopping is None:
                self._join(message, now)
        elif self._running:
            self._take_from_device(message, now)

    def _take_from_device(self, message: Update | Beat, now: float) -> None:
        events = [trace.device_event(table) for table in message.events]
        if any(event.device != message.device for event in events):
            raise BadMessage("it reports events of another device")
        if isinstance(message, Update) and self._clock.host_seconds(message.due - now) > _LONGEST_LEAD_SECONDS:
            raise BadMessage("an update that is due long after it was sent")
        for event in events:
            self._trace.write(event)
        if isinstance(message, Beat):
            self._beats[message.device] = message
        if self._stopping is not None:
            return
        self._presence.heard(message.device, now)
        if not self._engine.is_present(message.device):
            # it had been silent for too long and is back; what it brings belongs to a ticket that is settled
            self._join(self._hellos[message.device], now, message.trains)
        if isinstance(message, Beat):
            self._engine.beat(message, now)
        elif message.due > now:
            self._arrivals.add(message, now)
        else:
            self._take_up(message, now)

    def _take_up_arrivals(self) -> None:
        while self._running and self._stopping is None:
            arrival = self._arrivals.pop(self._clock.now())
            if arrival is None:
                return
            self._take_up(*arrival)
            self._check_versions()

    def _take_up(self, update: Update, received: float) -> None:
        """The emulated uplink has delivered an update: the rule decides, at the moment at which it was due.

        What the updates before it took us is hidden behind the delay of the answer, as long as that is longer.
        """
        began, moment = self._host_now(), max(update.due, received, self._engine.now)
        self._engine.update(update, moment, received=received, taken=self._clock.now())
        self._load.served(self._host_now() - began)

    def _take_from_evaluator(self, message: Message, now: float) -> None:
        if isinstance(message, Hello):
            self._hellos[EVALUATOR] = message
        elif isinstance(message, Beat):
            self._beats[EVALUATOR] = message
        elif isinstance(message, Score):
            self._evaluation.take(message)
            self._trace.write(trace.Scored(t=now, version=message.version, made=message.made, metrics=message.metrics))
            target = self._experiment.stop.target_accuracy
            if target is not None and message.metrics.get("accuracy", 0.0) >= target:
                self.stop(f"accuracy {target:g} is reached")
        else:
            raise BadMessage(f"a {type(message).__name__} that an evaluator may not send")

    def _take_from_canary(self, peer: str, message: Message) -> None:
        if isinstance(message, Hello):
            self._hellos[peer] = message
        elif isinstance(message, Beat):
            self._beats[peer] = message
            for table in message.events:
                self._trace.write(trace.canary_event(table))
        else:
            raise BadMessage(f"a {type(message).__name__} that a canary may not send")

    def _refuse(self, peer: str, reason: str) -> None:
        now = self._clock.now() if self._running else 0.0
        printable = peer.encode("ascii", "backslashreplace").decode()  # the name of a stranger may be any bytes
        self._trace.write(trace.Refusal(t=now, peer=printable[:100], reason=reason[:300]))
        self._send(peer, Refused(reason=reason[:300]))

    # ---- messages out

    def _send(self, peer: str, message: Message) -> bool:
        try:
            self._hub.send(peer, encode(message))
        except Unreachable:
            return False
        return True

    def _send_train(self, device: str, train: Train) -> None:
        if not self._send(device, train):
            raise ConnectionError(device)

    # ---- the rest

    def _join(self, hello: Hello, now: float, trains: int = 0) -> None:
        self._trace.write(
            trace.Joined(t=now, device=hello.device, pid=hello.pid, cores=list(hello.cores), samples=hello.samples)
        )
        self._presence.heard(hello.device, now)
        self._send(hello.device, Welcome(origin=self._clock.origin))
        self._engine.join(DeviceInfo(name=hello.device, samples=hello.samples), now, trains)

    def _keep_house(self, now: float) -> None:
        for device in self._presence.silent(now):
            if is_computing(self._hellos[device].pid):
                self._presence.heard(device, now)  # one local step may take longer than the time-out
            elif self._engine.is_present(device):
                self._engine.leave(device, "it was silent for too long", now)
        engine = self._engine
        snapshot = self._evaluation.next(engine.version, engine.made, engine.model, now)
        if snapshot is not None:
            self._send(EVALUATOR, snapshot)
        if self._load.is_due(self._host_now()):
            self._trace.write(self._load.report(self._host_now(), now))
        self._trace.flush()

    def _host_now(self) -> float:
        return self._clock.host_seconds(self._clock.now())

    def _check_versions(self) -> None:
        versions = self._experiment.stop.versions
        if versions is not None and self._engine.version >= versions:
            self.stop(f"version {versions} is reached")


def _strategy(experiment: Experiment) -> Strategy:
    cls = plugins.find(experiment.strategy_name, "aggregator.strategies", experiment.name, "strategy")
    strategy: Strategy = build(cls, experiment.strategy_parameters, experiment.name, "strategy")
    return strategy
