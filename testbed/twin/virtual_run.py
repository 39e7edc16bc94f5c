"""A run on a virtual clock: a loop over what happens next. It calls the classes that processes call by the wall clock.

Theory of operation (ADR 33)
    The devices are ``DeviceDriver``s, the aggregator is a ``MessageHandler`` over the engine, and messages pass in
    memory at the moment at which they are sent. So each moment is exact: nothing is sent ahead and nothing is late.
    Order at one moment: (1) devices that rejoin; (2) devices act, in fleet order; (3) what is due at the aggregator:
    updates in the order in which devices sent them, then the wake; (4) heartbeats; (5) the aggregator's chores: lost
    devices leave, and a version is scored; (6) the end by time. What this causes at the same moment follows in the
    same order.
    Chores come at multiples of a tenth of a second, about as often as in the process of the aggregator. Those before
    which nothing has happened are left out.
"""

from __future__ import annotations

import datetime
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from aggregator.connections.lost_devices import LostDevices
from aggregator.connections.presence import PresenceTracker
from aggregator.course.ending import INTERRUPTED
from aggregator.course.evaluation import EvaluationQueue
from aggregator.course.load import LoadMeter
from aggregator.course.run_course import RunCourse
from aggregator.process import assembly
from aggregator.process.output_files import OutputFiles
from devices.device_config import DeviceConfig, Rejoining
from testbed.common.clock import ManualClock
from testbed.common.errors import RunFailed
from testbed.emulation.recorded import PreparedReplay
from testbed.history import trace
from testbed.learning.training.task import Task
from testbed.profile import script
from testbed.profile.schema import Experiment
from testbed.twin.agenda import Agenda
from testbed.twin.job_results import JobResults
from testbed.twin.memory_links import MemoryClusters
from testbed.twin.virtual_device import VirtualDevice
from testbed.twin.virtual_peers import NoProcesses, VirtualPeers
from testbed.wire.messages import EVALUATOR, Heartbeat, Hello, Message, Score, Snapshot

_CHORE_SECONDS = 0.1
_PID = 1
"""Stands for the number of a process; there is none."""

Evaluate = Callable[[Snapshot], Mapping[str, float]]
"""Returns the finite scores of a version."""
Progress = Callable[[float, int], None]
"""Receives the emulated seconds so far, and the version."""


class VirtualRun:
    """One run. ``replay``: what is repeated, if it is a replay."""

    def __init__(
        self,
        experiment: Experiment,
        configs: Sequence[DeviceConfig],
        task: Task,
        results: JobResults,
        evaluate: Evaluate,
        folder: Path,
        replay: PreparedReplay | None = None,
        progress: Progress = lambda seconds, version: None,
    ) -> None:
        self._experiment, self._configs, self._task, self._results = experiment, configs, task, results
        self._evaluate, self._progress = evaluate, progress
        self._clock, self._load = ManualClock(), LoadMeter(0.0, lambda: None, lambda: None)
        self._trace, self._files = trace.TraceWriter(folder / "trace.jsonl"), OutputFiles(folder)
        self._indices = {config.spec.name: config.spec.index for config in configs}
        self._names = [config.spec.name for config in configs]
        self._agenda, self._clusters = Agenda(len(configs)), MemoryClusters(self._wake)
        self._strategy = assembly.strategy_of(experiment)
        self._devices = [self._device(config) for config in configs]
        specs = [config.spec for config in configs]
        self._peers = VirtualPeers(specs, self._deliver)
        self._engine = assembly.engine_of(
            experiment, self._strategy, specs, task, self._peers.send_to, self._trace.write
        )
        self._evaluation, self._ending = (
            EvaluationQueue(experiment.evaluation.every),
            assembly.ending_of(experiment, replay),
        )
        self._course = RunCourse(experiment, self._engine, self._evaluation, self._ending, self._trace.write)
        self._presence = PresenceTracker(experiment.presence.timeout)
        self._handler = assembly.handler_of(
            self._peers,
            self._engine,
            self._evaluation,
            lambda deaths: LostDevices(NoProcesses(self._lives), self._presence, deaths),
            self._ending,
            self._trace.write,
            assembly.arrivals_of(experiment, replay),
        )
        actions = script.scheduled_actions((spec.script for spec in specs), grace=0.0, boot=0.0)
        self._rejoins = [action for action in reversed(actions) if action.do == "rejoin"]
        """Those to come, the next one last."""
        self._chores, self._checked = 0, -1
        """The next chores are those of this number; the version at the last ones."""

    def _device(self, config: DeviceConfig) -> VirtualDevice:
        samples = len(self._task.shards[config.spec.index])
        brief = not self._strategy.uses_progress
        return VirtualDevice(config, samples, self._results, self._clusters, brief=brief)

    def _lives(self, device: str) -> bool:
        return self._devices[self._indices[device]].lives

    def stop(self) -> None:
        """End the run at the next moment."""
        self._ending.interrupt(INTERRUPTED)

    def run(self) -> None:
        """Run to the end. Raises Unwritten if a file could not be written, and what a strategy or a task raises."""
        try:
            self._begin()
            self._loop(lambda: self._ending.reason is None)
            if self._strategy.broadcasts_final_model and not self._ending.interrupted:
                patience = self._course.begin_broadcast(self._clock.now())
                self._loop(lambda: bool(self._engine.pending_final) and not self._ending.interrupted, patience)
                self._ending.broadcasting = False
            self._finish()
        finally:
            self._trace.close()
            self._files.save_model(self._engine, self._task)
        if self._trace.lost:
            self._files.note_unwritten("trace.jsonl", f"{self._trace.problem}; {self._trace.lost} events are missing")
        self._files.check()

    def _begin(self) -> None:
        header = assembly.header_of(
            self._experiment,
            dilation=1.0,
            demand=0.0,
            pressure=None,
            survey_age=None,
            host=platform.platform(),
            started=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        )
        self._handler.begin(self._clock)
        for config in self._configs:
            self._peers.note(config.spec.name, self._hello(config))
        self._handler.start(header, 0.0)
        for config, device in zip(self._configs, self._devices, strict=True):
            self._act(config.spec.index, device, 0.0)

    def _hello(self, config: DeviceConfig) -> Hello:
        samples = len(self._task.shards[config.spec.index])
        return Hello(device=config.spec.name, pid=_PID, cores=(), samples=samples)

    # ---- the loop

    def _loop(self, goes_on: Callable[[], bool], until: float = math.inf) -> None:
        """Let things happen in order while ``goes_on``, up to the moment ``until``."""
        clock, agenda, due = self._clock, self._agenda, self._handler.due
        while goes_on():
            own = min(due.next_due, self._ending.at) if self._ending.reason is None else until
            happens = min(agenda.next, own, self._next_rejoin)
            moment = min(happens, self._next_chore(happens))
            if moment == math.inf:
                raise RunFailed("nothing can happen any more, and no condition of stop is met; set stop.seconds")
            now = clock.moment = max(moment, clock.moment)
            self._rejoin(now)
            later = self._let_devices_act(now)
            if self._ending.reason is None:
                due.catch_up(now, clock, self._load)
            for heartbeat in later:
                self._peers.note(heartbeat.device, heartbeat)
                self._handler.take(heartbeat.device, heartbeat, now)
            if now >= self._chores * _CHORE_SECONDS:
                self._do_chores(now)
            self._ending.check_time(now)
            if now >= until:
                return

    def _let_devices_act(self, now: float) -> list[Heartbeat]:
        """Let devices act, and take their results. Return their heartbeats, which come after what is due."""
        later: list[Heartbeat] = []
        while (index := self._agenda.take(now)) is not None:
            for message in self._act(index, self._devices[index], now):
                if isinstance(message, Heartbeat):
                    later.append(message)
                else:
                    self._handler.take(self._names[index], message, now)
        return later

    def _act(self, index: int, device: VirtualDevice, now: float) -> list[Message]:
        messages, following = device.act(now)
        self._agenda.plan(index, following)
        if messages and device.is_dead:
            self._presence.note_sign_of_life(self._names[index], device.last_sign)
        return messages

    def _deliver(self, device: str, message: Message) -> None:
        """Hand a message of the aggregator over to a device."""
        index = self._indices[device]
        self._agenda.plan(index, self._devices[index].receive(message, self._clock.moment))

    def _wake(self, device: str) -> None:
        """Let a device act now: it has got a message of its cluster."""
        self._agenda.plan(self._indices[device], self._clock.moment)

    # ---- what happens beside messages

    @property
    def _next_rejoin(self) -> float:
        return self._rejoins[-1].at if self._rejoins else math.inf

    def _rejoin(self, now: float) -> None:
        """Let devices that the script starts again say hello, as new processes."""
        while self._rejoins and self._rejoins[-1].at <= now:
            action = self._rejoins.pop()
            index = self._indices[action.device]
            self._results.restart(action.device)
            config = replace(self._configs[index], rejoining=Rejoining(at=action.at, origin=0.0))
            self._devices[index] = self._device(config)
            self._agenda.plan(index, now)
            hello = self._hello(config)
            self._peers.note(action.device, hello)
            self._handler.take(action.device, hello, now)

    def _next_chore(self, happens: float) -> float:
        """Return when the next chores are done, if something else ``happens`` next at that moment."""
        version, moment = self._engine.version, self._chores * _CHORE_SECONDS
        if version != self._checked or moment >= happens:
            return moment
        needed = min(happens, self._evaluation.next_at(version), self._presence.next_timeout)
        if moment < needed < math.inf:
            self._chores = math.ceil(needed / _CHORE_SECONDS)
        return self._chores * _CHORE_SECONDS if needed < math.inf else math.inf

    def _do_chores(self, now: float) -> None:
        self._chores, self._checked = self._chores + 1, self._engine.version
        self._handler.due.catch_up(now, self._clock, self._load)
        self._handler.drop_missing(now)
        self._course.check_range(now)
        snapshot = self._course.next_snapshot(now)
        if snapshot is not None:
            self._score(snapshot, now)
        self._trace.flush()
        self._progress(now, self._engine.version)

    def _score(self, snapshot: Snapshot, now: float) -> None:
        score = Score(version=snapshot.version, made=snapshot.made, metrics=dict(self._evaluate(snapshot)))
        self._handler.take(EVALUATOR, score, now)

    # ---- the end

    def _finish(self) -> None:
        ended = self._clock.now()
        for device in self._devices:
            for message in device.stop(ended):
                self._handler.take(device.config.spec.name, message, ended)
        self._handler.record_kills(ended)
        snapshot = self._course.last_snapshot(ended)
        if snapshot is not None:
            self._score(snapshot, ended)
        self._course.check_range(ended)
        self._course.record_end(ended, ())
