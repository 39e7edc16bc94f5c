"""The aggregator process: a run from the first hello to the last goodbye."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import math
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from aggregator.engine.arrivals import Arrivals
from aggregator.engine.engine import Engine
from aggregator.engine.forecast import CellForecast
from aggregator.process import checkpoint, status
from aggregator.process.aggregator_config import AggregatorConfig
from aggregator.process.checkpoint import CHECKPOINT, Checkpoints, saved
from aggregator.process.ending import INTERRUPTED, UNWRITABLE, Ending
from aggregator.process.evaluation import EvaluationQueue
from aggregator.process.intake import Intake
from aggregator.process.peers import Peers
from aggregator.process.presence import PresenceTracker
from aggregator.process.recorded_order import RecordedOrder
from aggregator.strategies import STRATEGIES
from aggregator.strategy import Strategy
from testbed.common.clock import WallClock
from testbed.common.errors import UserError
from testbed.common.parameters import build
from testbed.common.statefile import StateError
from testbed.emulation.recorded import read_arrivals
from testbed.history import trace
from testbed.history.rollback import roll_back
from testbed.host.cores import Priority, keep_freed_memory, settle
from testbed.host.kernel import is_computing
from testbed.learning.tasks.task import Task
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Checkpoint, Experiment, StopWhen
from testbed.wire.messages import EVALUATOR, Stop, Welcome

_HOUSEKEEPING_SECONDS = 0.1
_STATUS_SECONDS = 0.25
_FAREWELL_SECONDS = 3.0
_LAST_SCORE_SECONDS = 30.0
_NEW_EVALUATOR_SECONDS = 5.0
"""After its death, a new one is forked in a second or two, unless it keeps dying."""
_FLEET_SECONDS = 300.0
_CHORE_SECONDS = 0.005
"""Replacing the status file takes a millisecond, and three on a bad day."""
_LONGEST_CHORE_WAIT_SECONDS = 0.5


def main(config: AggregatorConfig, task: Task, ready: Callable[[str], None]) -> None:
    """Run the experiment. ``ready`` is told the endpoint as soon as peers can connect."""
    settle(config.core, Priority.AGGREGATOR)
    keep_freed_memory()
    process = AggregatorProcess(config, task)
    signal.signal(signal.SIGTERM, lambda *_: process.stop(INTERRUPTED))
    ready(process.endpoint)
    process.run()


class Unwritten(Exception):
    """The run is over, and something that it should leave behind could not be written."""


class AggregatorProcess:
    def __init__(self, config: AggregatorConfig, task: Task) -> None:
        experiment = config.experiment
        self._config, self._experiment, self._task = config, experiment, task
        self._peers = Peers(config, task.size)
        self.endpoint = self._peers.endpoint
        resume = config.resume
        folder = Path(config.run_folder)
        self._trace = trace.TraceWriter(folder / "trace.jsonl")
        self._strategy = _strategy(experiment)
        self._engine = Engine(
            self._strategy,
            task.initial(),
            job=experiment.training,
            random=np.random.default_rng([experiment.seed, 3]),
            send=self._peers.send_to,
            record=self._trace.write,
            forecast=_outlook(config, task),
            truth=lambda: _truth(self._peers.fleet.values(), task),
        )
        self._evaluation = EvaluationQueue(experiment.evaluation.every)
        self._unwritten: dict[str, str] = {}
        """File → why it could not be written."""
        self._status_missed = False
        self._ending, arrivals = _ending(config), _arrivals(config)
        self._intake = Intake(
            self._peers,
            self._engine,
            self._evaluation,
            PresenceTracker(experiment.presence.timeout),
            self._ending,
            self._trace.write,
            arrivals,
            rate=experiment.transport.rate,
        )
        when = experiment.checkpoint if self._strategy.resumable else Checkpoint(never=True)
        own = type(self._strategy).__module__
        self._checkpoints = Checkpoints(folder, when, lambda: self._intake.host_now, self._trace.sync, own)
        if resume is not None:
            try:
                self._intake.restore(checkpoint.read(folder / CHECKPOINT, own))
            except StateError as problem:
                raise UserError(f"{problem}; it was made by another version, or with another rule") from None
            self._checkpoints.begin_from(resume.at, self._engine.version)

    def stop(self, reason: str) -> None:
        """End the run at the next opportunity; the first reason counts."""
        self._ending.interrupt(reason)

    def run(self) -> None:
        try:
            self._gather_fleet()
            if self._ending.reason is None:
                self._begin()
                self._loop()
                self._save_last()
                if self._strategy.hands_out_final_model:
                    self._hand_out()
            self._finish()
        finally:  # a rule may fail: what it had seen and made by then is kept
            self._trace.close()
            self._save_model()
            self._peers.close()
        if self._trace.lost:
            self._unwritten["trace.jsonl"] = f"{self._trace.problem}; {self._trace.lost} events are missing"
        if self._unwritten:
            raise Unwritten("; ".join(f"{name} could not be written: {why}" for name, why in self._unwritten.items()))

    # ---- before

    def _gather_fleet(self) -> None:
        """Wait until every process has said hello, so that time zero is the same for all."""
        while self._ending.reason is None and (missing := self._peers.missing):
            self._intake.receive(_HOUSEKEEPING_SECONDS)
            if self._intake.clock.now() > _FLEET_SECONDS:
                raise RuntimeError(f"{len(missing)} processes did not connect, {min(missing)} among them")

    def _begin(self) -> None:
        resume, dilation = self._config.resume, self._config.dilation
        clock = WallClock.starting_now(dilation) if resume is None else WallClock.showing(resume.at, dilation)
        self._intake.begin(clock)
        for name in self._peers.canaries:
            self._peers.send(name, Welcome(origin=clock.origin))
        if resume is None:
            self._start(clock)
        else:
            self._go_on(resume.at)

    def _go_on(self, at: float) -> None:
        """Everybody is there: only now is anything undone."""
        folder = Path(self._config.run_folder)
        self._trace.write(
            trace.Resumed(
                t=at,
                version=self._engine.version,
                undone=roll_back(folder, saved(folder).trace_bytes),
                dilation=self._config.dilation,
                started=_today(),
            )
        )
        self._intake.resume(at)

    def _start(self, clock: WallClock) -> None:
        experiment, config = self._experiment, self._config
        self._trace.write(
            trace.Header(
                t=0.0,
                schema=trace.SCHEMA,
                name=experiment.name,
                strategy=experiment.strategy_name,
                parameters=experiment.strategy_parameters,
                seed=experiment.seed,
                data_seed=experiment.data_seed,
                model_seed=experiment.model_seed,
                dilation=clock.dilation,
                host=platform.platform(),
                replay=experiment.replay.mode if experiment.replay.trace else "",
                demand=config.demand,
                pressure=config.pressure,
                started=_today(),
            )
        )
        for name in self._peers.fleet:
            self._intake.join(self._peers.hellos[name], 0.0)
        self._engine.start(0.0)

    # ---- meanwhile

    def _loop(self) -> None:
        intake, ending, clock = self._intake, self._ending, self._intake.clock
        now, next_housekeeping, next_status = clock.now(), 0.0, 0.0
        while ending.reason is None:
            if now >= next_housekeeping and self._has_time(now, next_housekeeping):
                self._keep_house(now)
                next_housekeeping = now + _HOUSEKEEPING_SECONDS / clock.dilation
            if now >= next_status and self._has_time(now, next_status):
                self._show_status(now)
                next_status = now + _STATUS_SECONDS / clock.dilation
            until = min(intake.next_due, ending.at)
            if now < next_housekeeping or self._has_time(now, next_housekeeping):
                until = min(until, next_housekeeping)
            intake.wait(until)
            now = clock.now()
            ending.look_at_time(now)

    def _has_time(self, now: float, chore: float) -> bool:
        """Whether nothing is due for the moment that files and messages take, or the chore has waited long enough."""
        clock = self._intake.clock
        free = clock.host_seconds(self._intake.next_due - now)
        return free > _CHORE_SECONDS or clock.host_seconds(now - chore) > _LONGEST_CHORE_WAIT_SECONDS

    def _keep_house(self, now: float) -> None:
        engine, intake = self._engine, self._intake
        intake.drop_missing(now)
        intake.tell_refusals(now)
        snapshot = self._evaluation.next(engine.version, engine.made, engine.model, now)
        if snapshot is not None:
            self._peers.send(EVALUATOR, snapshot)
        if intake.load.is_due(intake.host_now):
            self._trace.write(intake.load.report(intake.host_now, now))
        self._trace.flush()
        if self._trace.full:
            self._note_unwritten("trace.jsonl", f"{self._trace.problem}, for too long")
            self._ending.interrupt(f"{UNWRITABLE}: {self._trace.problem}")
        going_on = self._trace.problem is None and self._ending.reason is None
        if going_on and self._checkpoints.is_due(now, engine.version):
            self._checkpoints.take(now, engine.version, self._trace.size, intake.state())

    def _save_last(self) -> None:
        """Before anything is wound up: a run that was interrupted, or is to last longer, goes on from here."""
        now = max(self._intake.moment, self._engine.now)
        self._trace.flush()
        if self._trace.problem is None:
            self._checkpoints.take_last(now, self._engine.version, self._trace.size, self._intake.state)

    def _show_status(self, now: float) -> None:
        problem = self._trace.problem
        told = f"trace.jsonl cannot be written: {problem}; events are kept in memory: make room" if problem else ""
        try:
            status.write(
                Path(self._config.status_file),
                now,
                self._intake.clock,
                self._engine,
                self._evaluation,
                self._peers.beats,
                self._peers.fleet,
                told,
            )
        except OSError as error:  # a view that stands still is no reason to end the run
            with contextlib.suppress(OSError):
                if not self._status_missed:
                    print(f"{error.filename} cannot be written: {error.strerror}", file=sys.stderr, flush=True)
            self._status_missed = True

    def _note_unwritten(self, name: str, why: str) -> None:
        self._unwritten.setdefault(name, why)

    # ---- after

    def _hand_out(self) -> None:
        """Send the final model, again and again, until every device that is there has it."""
        engine, intake, clock, ending = self._engine, self._intake, self._intake.clock, self._ending
        if ending.interrupted:
            return
        ending.handing_out = True
        engine.broadcast_final(max(intake.moment, engine.now))
        longest = self._experiment.stop.delivery
        patience = math.inf if longest is None else engine.now + longest
        next_status = 0.0
        while engine.pending_final and (now := clock.now()) < patience and not ending.interrupted:
            if now >= next_status:
                self._keep_house(now)
                self._show_status(now)
                next_status = now + _STATUS_SECONDS / clock.dilation
            intake.receive(_HOUSEKEEPING_SECONDS)
        ending.handing_out = False

    def _finish(self) -> None:
        engine, intake, peers = self._engine, self._intake, self._peers
        reason, ended = self._ending.reason or "", intake.moment
        peers.wake_the_frozen()
        self._say_goodbye(peers.hellos.keys() - {EVALUATOR}, reason)
        if intake.running:
            intake.note_deaths(ended)
            self._score_last()
        self._say_goodbye(peers.hellos.keys() & {EVALUATOR}, reason)
        if not intake.running and self._config.resume is not None:
            return  # it was interrupted before it went on: its trace ends as it did
        intake.tell_refusals(ended, last=True)
        if intake.running:
            self._trace.write(intake.load.report(intake.host_now, ended))
        self._trace.write(
            trace.Stopped(
                t=ended,
                reason=reason,
                version=engine.version,
                in_flight=engine.in_flight + engine.head_ledgers.in_flight,
                wakes=engine.wakes,
                model=hashlib.sha256(engine.model.tobytes()).hexdigest(),
                silent=[name for name in peers.fleet if engine.is_present(name) and not peers.has_left(name)],
            )
        )

    def _say_goodbye(self, names: Iterable[str], reason: str) -> None:
        """Tell peers to stop, and wait a moment for their last word: a device has events left to tell.

        Closing at once would not do for the evaluator either. A DEALER that queues only for a connection that
        exists (ZMQ_IMMEDIATE) throws away what it has not read when the connection ends.
        """
        waited_for = {name for name in names if self._peers.send(name, Stop(reason=reason))}
        clock = self._intake.clock
        patience = clock.now() + _FAREWELL_SECONDS / clock.dilation
        while waited_for and clock.now() < patience:
            self._intake.receive(_HOUSEKEEPING_SECONDS)
            waited_for = {name for name in waited_for if not self._peers.has_left(name)}

    def _score_last(self) -> None:
        """The final model is scored, whatever the schedule says."""
        engine, evaluation, clock = self._engine, self._evaluation, self._intake.clock
        patience = clock.now() + _LAST_SCORE_SECONDS / clock.dilation
        while evaluation.scored != engine.version and clock.now() < patience and self._is_evaluator_there():
            if not evaluation.pending:
                snapshot = evaluation.last(engine.version, engine.made, engine.model, clock.now())
                if snapshot is not None:
                    self._peers.send(EVALUATOR, snapshot)
            self._intake.receive(_HOUSEKEEPING_SECONDS)

    def _is_evaluator_there(self) -> bool:
        """A score that is due will never come from an evaluator that has died; from the next one it will."""
        clock = self._intake.clock
        patience = clock.now() + _NEW_EVALUATOR_SECONDS / clock.dilation
        while not is_computing(self._peers.hellos[EVALUATOR].pid):
            if self._ending.interrupted or clock.now() > patience:
                return False
            self._intake.receive(_HOUSEKEEPING_SECONDS)
        return True

    def _save_model(self) -> None:
        folder = Path(self._config.run_folder) / "checkpoints"
        draft, version = folder / "final.new", {"version": str(self._engine.version)}
        try:
            folder.mkdir(exist_ok=True)
            save_file(self._task.tensors(self._engine.model), draft, metadata=version)
            os.replace(draft, folder / "final.safetensors")
        except (OSError, SafetensorError) as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            self._note_unwritten("checkpoints/final.safetensors", str(error))


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _truth(fleet: Iterable[DeviceSpec], task: Task) -> dict[str, tuple[int, ...]] | None:
    """Device → the labels that it has; None where the data has none."""
    labels = task.labels
    return None if labels is None else {spec.name: labels[spec.index] for spec in fleet}


def _ending(config: AggregatorConfig) -> Ending:
    replay, recorded = config.experiment.replay, config.replay
    if recorded is None:
        return Ending(config.experiment.stop)
    if replay.mode == "strict":
        return Ending(StopWhen())  # it ends where the recorded run did
    return Ending(config.experiment.stop, recorded.jobs if replay.end == "stop" else None)


def _arrivals(config: AggregatorConfig) -> Arrivals | RecordedOrder:
    if config.replay is None or config.experiment.replay.mode != "strict":
        return Arrivals()
    return RecordedOrder(read_arrivals(Path(config.replay.turns)), config.replay.wakes)


def _outlook(config: AggregatorConfig, task: Task) -> CellForecast | None:
    cell, fleet = config.experiment.cell, {device.name: device for device in config.devices}
    if cell is None:
        return None
    samples = {name: len(task.shards[device.index]) for name, device in fleet.items()}
    return CellForecast(cell, config.experiment.seed, fleet, samples, 4 * task.size)


def _strategy(experiment: Experiment) -> Strategy:
    cls = STRATEGIES.find(experiment.strategy_name, experiment.name, "strategy")
    strategy: Strategy = build(cls, experiment.strategy_parameters, experiment.name, "strategy")
    return strategy
