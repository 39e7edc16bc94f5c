"""A run in one process: real devices, training, engine and strategy on a manual clock, and a real run folder.

It does what the processes of a run do, in the order of their moments, and a thousand times faster.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import tomli_w
from msgspec.structs import replace
from safetensors.numpy import save_file

from aggregator.process import assembly
from aggregator.strategy import DeviceInfo
from devices.compute.job_steps import steps_of_job
from devices.compute.kept_memory import JobTickets, KeptMemory
from devices.compute.trainer import Computation, Stepwise
from devices.device import Device
from testbed.emulation.faults import timetable
from testbed.history import trace
from testbed.host.core_plan import CorePlan
from testbed.host.survey import StepTime, Survey
from testbed.learning import setup
from testbed.loading import profile_loader
from testbed.planning import planner
from testbed.profile import fleet
from testbed.profile.fleet import DeviceSpec
from testbed.wire.messages import Ask, Base, ForDevice, Grant, Train, Vector
from testbed.wire.training_job import Job
from tests.testbed.examples import write_profile
from tests.testbed.runs.folders import new_folder, write_results

HEARTBEAT_SECONDS = 0.5
LEAD = 0.001
"""Seconds before its due moment at which an update is received."""


class OneProcess:
    """One run. ``changes``: keys of the profile at the top level."""

    def __init__(self, place: Path, **changes: object) -> None:
        table = {
            "name": "unit",
            "seed": 3,
            "strategy": "fedasync",
            "task": {"name": "digits", "model": "small-mlp"},
            "training": {"steps": 2, "batch": 16, "lr": 0.1},
            "devices": [{"name": "d", "profile": {"seconds_per_sample": 0.01}, "link": {}, "count": 3}],
        } | changes
        self._place = place
        self._profile = write_profile(place, tomli_w.dumps(table))
        self.experiment = profile_loader.load(self._profile)
        recipe = setup.entry(self.experiment.task_name, self.experiment.task_parameters, "")
        self.task = recipe.open(setup.setting(self.experiment))
        step = StepTime(samples=16, seconds=0.001, alone=0.001, slow=0.001)
        self._survey = Survey(samples=tuple(len(shard) for shard in self.task.shards), steps=(step,))
        self._specs = {spec.name: spec for spec in fleet.concrete(self.experiment, self._survey)}
        self.events: list[trace.Event] = []
        self.now, self._next_heartbeat = 0.0, HEARTBEAT_SECONDS
        self._mail: list[tuple[str, ForDevice]] = []
        self._pids = 100
        strategy = assembly.strategy_of(self.experiment)
        self.engine = assembly.engine_of(
            self.experiment,
            strategy,
            list(self._specs.values()),
            self.task,
            lambda device, message: self._mail.append((device, message)),
            self.events.append,
        )
        self._broadcasts = strategy.broadcasts_final_model
        self.devices: dict[str, Device] = {}
        self._begin()

    def _begin(self) -> None:
        host = {"dilation": 1.0, "demand": 0.1, "pressure": None, "survey_age": None, "host": "", "started": ""}
        self.events.append(assembly.header_of(self.experiment, **host))
        for name in self._specs:
            self.join(name)
        self.engine.start(0.0)

    # ---- what happens to devices

    def join(self, name: str) -> None:
        """Let a new process of a device join."""
        spec, samples = self._specs[name], self._samples(name)
        self._pids += 1
        self.devices[name] = Device(spec, timetable(spec, self.experiment.seed), samples, self._trainer(spec))
        joined = trace.Joined(t=self.now, device=name, pid=self._pids, cores=[0], samples=samples)
        self.events.append(replace(joined, compress_updates=spec.compress_updates))
        keeps = spec.on_lost_download == "old_base"
        self.engine.join(DeviceInfo(name=name, samples=samples, keeps_base=keeps), self.now)

    def kill(self, name: str) -> None:
        """Let a device vanish, and the engine notice it."""
        del self.devices[name]
        self.engine.leave(name, "it was silent for too long", self.now)

    def interrupt_and_resume(self) -> None:
        """Continue from a checkpoint of this moment, with new processes."""
        self.events.append(
            trace.Resumed(t=self.now, version=self.engine.version, undone=0, dilation=1.0, started="later")
        )
        for name in self.devices:
            spec = self._specs[name]
            self.devices[name] = Device(
                spec, timetable(spec, self.experiment.seed), self._samples(name), self._trainer(spec), begins=self.now
            )
        self._mail.clear()
        self.engine.resume(self.now)

    def _samples(self, name: str) -> int:
        return len(self.task.shards[self._specs[name].index])

    def _trainer(self, spec: DeviceSpec) -> object:
        kept = KeptMemory()

        def train(job: Job, base: Vector, number: int, tickets: JobTickets) -> Computation:
            # as a whole, when it begins: all devices share one network
            steps = steps_of_job(self.task, self.experiment.seed, spec.index, job, base, number, tickets, kept)
            return _Computed(Stepwise(steps), job.steps_over(self._samples(spec.name)))

        return train

    # ---- time

    def run(self, until: float) -> None:
        """Run up to the moment ``until``."""
        while True:
            self._exchange()
            wake = math.inf if self.engine.wake_at is None else self.engine.wake_at
            moment = min(wake, self._next_heartbeat, *(device.due() for device in self.devices.values()))
            if moment > until:
                self.now = until
                return
            self.now = max(self.now, moment)
            self._exchange()
            if self.engine.wake_at is not None and self.engine.wake_at <= self.now:
                self.engine.wake(max(self.engine.wake_at, self.engine.now))
            if self._next_heartbeat <= self.now:
                self._next_heartbeat += HEARTBEAT_SECONDS
                self._send_heartbeats()

    def _send_heartbeats(self) -> None:
        for device in self.devices.values():
            heartbeat = device.heartbeat()
            self.events += heartbeat.events
            self.engine.heartbeat(heartbeat, self.now)

    def _exchange(self) -> None:
        busy = True
        while busy:
            busy = bool(self._mail)
            mail, self._mail = self._mail, []
            for name, message in mail:
                self._deliver(name, message)
            for device in list(self.devices.values()):
                device.advance(self.now)
                while device.wants_step(self.now):
                    device.step()
                    device.stepped(self.now)
                    device.advance(self.now)
                    busy = True
                busy = self._take_results(device) or busy

    def _deliver(self, name: str, message: ForDevice) -> None:
        device = self.devices.get(name)
        if device is None:
            return
        if isinstance(message, Train):
            device.receive(message, self.now)
        elif isinstance(message, Grant):
            device.receive_grant(message)
        elif isinstance(message, Base):
            device.receive_base(message)

    def _take_results(self, device: Device) -> bool:
        outbox, device.outbox = device.outbox, []
        for message in outbox:
            self.events += device.take_events()
            moments = {"received": self.now - LEAD, "handled": self.now}
            if isinstance(message, Ask):
                self.engine.ask(message, self.now, **moments)
            else:
                self.engine.update(message, self.now, **moments)
        return bool(outbox)

    # ---- the end

    def finish(self) -> Path:
        """End the run, write its folder, and return that."""
        if self._broadcasts:
            self.engine.broadcast_final(self.now)
            while self.engine.pending_final:
                self.now += HEARTBEAT_SECONDS
                self._exchange()
                self._send_heartbeats()
        engine = self.engine
        digest = hashlib.sha256(engine.model.tobytes()).hexdigest()
        metrics = {name: float(value) for name, value in self.task.evaluate(engine.model).items()}
        self.events.append(trace.Scored(t=self.now, version=engine.version, made=engine.made, metrics=metrics))
        self.events.append(
            trace.Stopped(
                t=self.now,
                reason="over",
                version=engine.version,
                in_flight=engine.in_flight,
                wakes=engine.wakes,
                model=digest,
            )
        )
        folder = new_folder(self._place / "runs", self.events)
        folder.write_profile(self.experiment)
        cores = CorePlan(aggregator=1, evaluator=1, devices=(0,) * len(self._specs))
        plan = planner.plan(self.experiment, self._survey, cores, 1.0)
        folder.write_meta(self.experiment, plan, {}, self._profile)
        (folder.path / "checkpoints").mkdir()
        save_file(self.task.tensors(engine.model), folder.path / "checkpoints" / "final.safetensors")
        write_results(folder, list(self._specs.values()))
        folder.release()
        return folder.path


class _Computed:
    """A job that was computed as a whole when it began."""

    late_losses = 0.0

    def __init__(self, steps: Stepwise, count: int) -> None:
        self._losses = [steps.step() for _ in range(count)]
        self._delta = steps.result()

    def step(self) -> float:
        return self._losses.pop(0)

    def result(self) -> Vector:
        return self._delta

    def pause(self) -> None:
        """Nothing to do."""

    def resume(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""
