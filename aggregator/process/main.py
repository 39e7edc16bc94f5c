"""The aggregator process: a run from the first hello to the last heartbeat."""

from __future__ import annotations

import datetime
import faulthandler
import platform
import signal
from collections.abc import Callable
from pathlib import Path

from aggregator.connections.lost_devices import KernelProcesses, LostDevices
from aggregator.connections.presence import PresenceTracker
from aggregator.course.ending import INTERRUPTED, UNWRITABLE
from aggregator.course.evaluation import EvaluationQueue
from aggregator.course.run_course import RunCourse
from aggregator.engine.model_range import in_words
from aggregator.process import assembly, checkpoint, status
from aggregator.process.aggregator_config import AggregatorConfig
from aggregator.process.checkpoint import CHECKPOINT, Checkpoints, saved
from aggregator.process.farewell import Farewell
from aggregator.process.intake import Intake
from aggregator.process.output_files import OutputFiles
from aggregator.process.strategy_call import GIVE_UP, CallFile, StrategyHangs, file_beside
from testbed.common.clock import WallClock
from testbed.common.errors import RunFailed, UserError
from testbed.common.files.statefile import StateError
from testbed.common.finders.user_code import in_one_line
from testbed.history import trace
from testbed.history.rollback import roll_back
from testbed.host import open_files
from testbed.host.cores import keep_freed_memory, settle
from testbed.host.priority import Priority, adopt, take_precedence
from testbed.learning.training.task import Task
from testbed.profile.schema import Checkpoint
from testbed.wire.messages import EVALUATOR, Welcome

_HOUSEKEEPING_SECONDS = 0.1
_STATUS_SECONDS = 0.25
_FLEET_SECONDS = 300.0
_CHORE_SECONDS = 0.005
"""Replacing the status file takes one millisecond, sometimes three."""
_LONGEST_CHORE_WAIT_SECONDS = 0.5


def main(config: AggregatorConfig, task: Task, ready: Callable[[str], None]) -> None:
    """Run the experiment. ``ready`` is called with the endpoint as soon as peers can connect."""
    settle((config.core,), Priority.AGGREGATOR)
    adopt(config.policy)
    keep_freed_memory()
    open_files.raise_limit()  # connections of strangers use descriptors, too (ADR 18)
    process = AggregatorProcess(config, task, before_the_end=take_precedence)
    signal.signal(signal.SIGTERM, lambda *_: process.stop(INTERRUPTED))
    signal.signal(GIVE_UP, lambda *_: process.give_up())
    # its stack goes to the log even if a library does not return to Python, where the handler above would be called
    faulthandler.register(GIVE_UP, all_threads=False, chain=True)
    ready(process.endpoint)
    process.run()


class AggregatorProcess:
    """Runs an experiment: gathers the fleet, serves it until the run ends, and stops it."""

    def __init__(self, config: AggregatorConfig, task: Task, before_the_end: Callable[[], None] = lambda: None) -> None:
        """``before_the_end`` is called when the run is over and its processes are still to be stopped."""
        self._before_the_end = before_the_end
        experiment, folder = config.experiment, Path(config.run_folder)
        self._config, self._experiment, self._task = config, experiment, task
        self._peers = assembly.peers_of(config, task.size)
        self.endpoint = self._peers.endpoint
        self._saved = None if config.resume is None else saved(folder)
        self._trace = trace.TraceWriter(
            folder / "trace.jsonl", continues_at=0 if self._saved is None else self._saved.trace.bytes
        )
        self._files = OutputFiles(folder)
        self._problems = status.Problems()
        self._strategy = assembly.strategy_of(experiment)
        self._call_file = CallFile(file_beside(Path(config.status_file)))
        self._engine = assembly.engine_of(
            experiment,
            self._strategy,
            config.devices,
            task,
            self._peers.send_to,
            self._trace.write,
            self._call_file.note,
        )
        self._evaluation = EvaluationQueue(experiment.evaluation.every)
        self._ending = assembly.ending_of(experiment, config.replay)
        self._course = RunCourse(experiment, self._engine, self._evaluation, self._ending, self._trace.write)
        presence = PresenceTracker(experiment.presence.timeout)
        self._handler = assembly.handler_of(
            self._peers,
            self._engine,
            self._evaluation,
            lambda deaths: LostDevices(KernelProcesses(self._peers), presence, deaths),
            self._ending,
            self._trace.write,
            assembly.arrivals_of(experiment, config.replay),
        )
        self._intake = Intake(
            self._peers,
            self._engine,
            self._handler,
            self._trace.write,
            message_limit=experiment.transport.message_limit,
        )
        self._checkpoints = self._restored_checkpoints(folder)

    def _restored_checkpoints(self, folder: Path) -> Checkpoints:
        """Return the writer of checkpoints. If the run resumes, restore the state from its last one first."""
        when = None if self._strategy.resumable else Checkpoint(never=True)
        own, resume = type(self._strategy).__module__, self._config.resume
        checkpoints = Checkpoints(folder, self._experiment, lambda: self._intake.host_now, self._trace.sync, own, when)
        if resume is not None:
            try:
                self._handler.restore(checkpoint.read(folder / CHECKPOINT, own))
            except StateError as problem:
                raise UserError(
                    f"{problem}; another version or another strategy wrote this checkpoint: run the experiment again"
                ) from None
            checkpoints.begin_from(resume.at, self._engine.version)
        return checkpoints

    def stop(self, reason: str) -> None:
        """End the run at the next opportunity; the first reason counts."""
        self._ending.interrupt(reason)

    def give_up(self) -> None:
        """Interrupt the strategy, which has not returned for too long."""
        if self._call_file.in_call:
            self._trace.flush()  # the strategy may catch this, and the process is killed then
            since = f"since {self._engine.now:.3f} s of the run"
            raise StrategyHangs(f"{type(self._strategy).__name__} has not returned {since}")

    def run(self) -> None:
        """Run to the end. Raises Unwritten if a file could not be written, RunFailed if the strategy fails."""
        try:
            self._gather_fleet()
            if self._ending.reason is None:
                self._begin()
                self._loop()
                self._before_the_end()
                self._save_last()
                if self._strategy.broadcasts_final_model:
                    self._broadcast_final()
            self._finish()
        except StrategyHangs as hang:
            problem = in_one_line(hang, with_type=False)
            raise RunFailed(f"{problem}; correct the strategy, or raise aggregator.patience") from hang
        finally:  # a strategy may fail: the trace and the model up to then are kept
            self._checkpoints.wait()
            self._trace.close()
            self._files.save_model(self._engine, self._task)
            self._peers.close()
            self._call_file.close()
        if self._trace.lost:
            problem = f"{self._trace.problem}; {self._trace.lost} events are missing"
            self._files.replace_reason("trace.jsonl", problem)
        self._files.check()

    # ---- before the run

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
            assert self._saved is not None
            self._resume(resume.at, self._saved.trace.bytes)

    def _resume(self, at: float, trace_bytes: int) -> None:
        """Continue from the checkpoint. The trace is rolled back only now, when all processes are there."""
        self._trace.write(
            trace.Resumed(
                t=at,
                version=self._engine.version,
                undone=roll_back(Path(self._config.run_folder), trace_bytes),
                dilation=self._config.dilation,
                started=_today(),
            )
        )
        self._handler.resume(at)

    def _start(self, clock: WallClock) -> None:
        config = self._config
        header = assembly.header_of(
            self._experiment,
            dilation=clock.dilation,
            demand=config.demand,
            pressure=config.pressure,
            survey_age=config.survey_age,
            host=platform.platform(),
            started=_today(),
        )
        self._handler.start(header, 0.0)

    # ---- during the run

    def _loop(self) -> None:
        intake, ending, clock = self._intake, self._ending, self._intake.clock
        now, next_housekeeping, next_status, ends_at = clock.now(), 0.0, 0.0, ending.at
        while ending.reason is None:
            if now >= next_housekeeping and self._has_time(now, next_housekeeping):
                self._keep_house(now)
                next_housekeeping, now = now + _HOUSEKEEPING_SECONDS / clock.dilation, clock.now()
            if now >= next_status and self._has_time(now, next_status):
                self._show_status(now)
                next_status, now = now + _STATUS_SECONDS / clock.dilation, clock.now()
            until = min(intake.next_due, ends_at)
            if now < next_housekeeping or self._has_time(now, next_housekeeping):
                until = min(until, next_housekeeping)
            now = intake.wait(until, now)
            if now >= ends_at:
                ending.check_time(now)

    def _has_time(self, now: float, chore: float) -> bool:
        """Whether nothing falls due while a chore is done, or the chore has waited long enough."""
        clock = self._intake.clock
        free = clock.host_seconds(self._intake.next_due - now)
        return free > _CHORE_SECONDS or clock.host_seconds(now - chore) > _LONGEST_CHORE_WAIT_SECONDS

    def _keep_house(self, now: float) -> None:
        engine, intake = self._engine, self._intake
        now = intake.catch_up(now)
        self._handler.drop_missing(now)
        intake.record_refusals(now)
        self._check_range(now)
        snapshot = self._course.next_snapshot(now)
        if snapshot is not None:
            self._peers.send(EVALUATOR, snapshot)
        if intake.load.is_due(intake.host_now):
            self._trace.write(intake.load.report(intake.host_now, now))
        self._flush_trace()
        if self._trace.full:
            self._files.note_unwritten("trace.jsonl", f"{self._trace.problem}, for too long")
            self._ending.interrupt(f"{UNWRITABLE}: {self._trace.problem}")
        running = self._trace.problem is None and self._ending.reason is None
        if running and self._checkpoints.is_due(now, engine.version):
            self._checkpoints.take(now, engine.version, self._trace.mark, self._handler.state())

    def _check_range(self, now: float) -> None:
        """Warn if the model has left its range."""
        found = self._course.check_range(now)
        if found is not None:
            self._problems.warn(in_words(found))

    def _save_last(self) -> None:
        """Take the last checkpoint before the final broadcast: a run that is resumed continues from here.

        It is written while devices are stopped: those of a large fleet would go on computing until it is on the disk.
        """
        now = max(self._intake.moment, self._engine.now)
        self._flush_trace()
        if self._trace.problem is None:
            self._checkpoints.take_last(now, self._engine.version, self._trace.mark, self._handler.state)

    def _flush_trace(self) -> None:
        self._trace.flush()
        why = self._trace.problem
        self._problems.note(
            f"trace.jsonl cannot be written: {why}; events are kept in memory: free disk space" if why else ""
        )

    def _show_status(self, now: float) -> None:
        self._files.write_status(
            lambda: status.write(
                Path(self._config.status_file),
                now,
                self._intake.clock,
                self._engine,
                self._evaluation,
                self._peers.heartbeats,
                self._peers.fleet,
                self._problems,
            )
        )

    # ---- after the run

    def _broadcast_final(self) -> None:
        """Send the final model until every present device has it, or for ``stop.delivery`` seconds."""
        engine, intake, clock, ending = self._engine, self._intake, self._intake.clock, self._ending
        if ending.interrupted:
            return
        patience = self._course.begin_broadcast(max(intake.moment, engine.now))
        next_status = 0.0
        while engine.pending_final and (now := clock.now()) < patience and not ending.interrupted:
            if now >= next_status:
                self._keep_house(now)
                self._show_status(now)
                next_status = now + _STATUS_SECONDS / clock.dilation
            intake.receive(_HOUSEKEEPING_SECONDS)
        ending.broadcasting = False

    def _finish(self) -> None:
        engine, intake, peers = self._engine, self._intake, self._peers
        farewell = Farewell(peers, engine, intake, self._evaluation, self._ending)
        reason, ended = self._ending.reason or "", intake.moment
        peers.continue_suspended()
        farewell.stop(peers.hellos.keys() - {EVALUATOR}, reason)
        if intake.running:
            self._handler.record_kills(ended)
            farewell.score_last()
        farewell.stop(peers.hellos.keys() & {EVALUATOR}, reason)
        if not intake.running and self._config.resume is not None:
            return  # interrupted before it resumed: its trace stays as it is
        intake.record_refusals(ended, last=True)
        if intake.running:
            self._check_range(ended)
            self._trace.write(intake.load.report(intake.host_now, ended))
        self._course.record_end(ended, [name for name in peers.fleet if not peers.has_left(name)])


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
