"""Watches the processes of a run until the aggregator exits: notes deaths, kills and restarts, shows the status."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from aggregator.process import status
from aggregator.process.status import Status
from aggregator.process.strategy_call import GIVE_UP, file_beside
from devices.device_config import DeviceConfig, Rejoining
from testbed.common.clock import WallClock
from testbed.common.errors import RunFailed
from testbed.host import rapl
from testbed.host.kernel import UsageMeter
from testbed.host.own_time import OwnTimeMeter
from testbed.processes.pool import AGGREGATOR, POLL_SECONDS, Processes
from testbed.processes.restarts import MOST_EVALUATORS, EvaluatorRestarts, Restarts, Schedule
from testbed.processes.strategy_watch import Reaction, StrategyWatch
from testbed.processes.templates.configs import EvaluatorConfig
from testbed.processes.templates.run_process import RunProcess
from testbed.profile.schema import Experiment
from testbed.profile.script import ScheduledAction
from testbed.wire.messages import EVALUATOR

BOOT_SECONDS = 1.0
"""Host seconds before its rejoin at which a device is forked, so that its start is not part of the absence."""


class RunView(Protocol):
    """Shows a run to the user while it is going on."""

    def starting(self, ready: int, total: int) -> None: ...
    def stopping(self) -> None: ...
    def status(self, status: Status) -> None: ...
    def note(self, text: str) -> None: ...


class StopRequests:
    """How many stop signals the launcher has received, and which was the first."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.count = 0

    def note(self, number: int, _: object = None) -> None:
        self.signal = self.signal or number
        self.count += 1


class Watchdog:
    """Watches the processes of one run.

    A death before the start fails the run. Later, the aggregator handles the death of a device, and the watchdog
    restarts the device if the policy says so; it restarts the evaluator as long as evaluators score versions.
    """

    def __init__(
        self,
        processes: Processes,
        experiment: Experiment,
        devices: Mapping[str, DeviceConfig],
        evaluator: EvaluatorConfig,
        schedule: Schedule,
        stopping: StopRequests,
        view: RunView,
        status_file: Path,
        dead: Iterable[str] = (),
    ) -> None:
        """``dead``: the devices of a resumed run that the script had killed before its interruption."""
        self._processes, self._devices, self._evaluator = processes, devices, evaluator
        self._schedule, self._stopping, self._view, self._status_file = schedule, stopping, view, status_file
        replay = experiment.replay
        strict = replay.trace is not None and replay.mode == "strict"  # a restart was not recorded
        self._restarts = Restarts("never" if strict else experiment.presence.restart)
        self._evaluators = EvaluatorRestarts(experiment)
        self._alive: dict[str, RunProcess] = {}
        self._killed = set(dead)
        """Devices that the script killed."""
        self._signals_passed_on = 0
        self._over = False
        """Whether devices were asked to stop."""
        self._clock: WallClock | None = None
        """The clock of the run; None before it has begun."""
        self._strategy, self._patience = experiment.strategy_name, experiment.aggregator.patience
        self._status_time, self._scored, self._problems = 0.0, -1, 0
        self._rapl: rapl.RaplMeter | None = None

    @property
    def host_energy(self) -> rapl.HostEnergy | None:
        return self._rapl.report() if self._rapl is not None else None

    def wait(self) -> None:
        """Block until the aggregator process exits. Raises RunFailed if the run fails."""
        self._alive = {name: self._processes[name] for name in self._processes}
        pid = self._processes[AGGREGATOR].pid
        with contextlib.closing(UsageMeter(pid)) as usage:
            meter = OwnTimeMeter(pid, usage)
            watch = StrategyWatch(file_beside(self._status_file), meter, self._strategy, self._patience)
            while AGGREGATOR in self._alive:
                self._processes.wait_for_exits(self._seconds_to_next_action())
                self._look(watch)
        if self._processes[AGGREGATOR].exitcode != 0 and self._stopping.count < 2:
            raise RunFailed(self._processes.why(AGGREGATOR))

    def _look(self, watch: StrategyWatch) -> None:
        """Look at the status and at all processes, and do what is due. Raises RunFailed if the run fails."""
        self._watch_strategy(watch)
        self._show_status()
        self._meter_host()
        ended = {name: process for name, process in self._alive.items() if process.exitcode is not None}
        if AGGREGATOR not in ended and not self._stopping.count:
            self._processes.check_templates()
        for name, process in ended.items():
            del self._alive[name]
            self._note_end(name, process.exitcode)
        self._pass_on_signal()  # after deaths that it did not cause
        if self._all_devices_died():
            raise RunFailed("all devices have died")
        if AGGREGATOR in self._alive:
            self._follow_schedule()

    def _pass_on_signal(self) -> None:
        if self._stopping.count == self._signals_passed_on:
            return
        self._signals_passed_on = self._stopping.count
        if self._stopping.count == 1:
            self._view.stopping()
            self._processes[AGGREGATOR].terminate()  # it ends the run and saves the results
        else:
            self._processes[AGGREGATOR].kill()

    def _watch_strategy(self, watch: StrategyWatch) -> None:
        """Warn of a strategy that does not return, then end it. Raises RunFailed if the aggregator had to be killed."""
        reaction = watch.look(time.monotonic(), stopping=self._signals_passed_on > 0)
        if reaction is Reaction.SLOW:
            self._view.note(watch.text)
        elif reaction is Reaction.STUCK:
            self._processes[AGGREGATOR].signal(GIVE_UP)
        elif reaction is Reaction.DEAF and self._processes[AGGREGATOR].exitcode is None:
            self._processes.kill(AGGREGATOR)
            raise RunFailed(f"{watch.text} (see {self._processes.log(AGGREGATOR)})")

    def _show_status(self) -> None:
        try:
            changed = self._status_file.stat().st_mtime
        except FileNotFoundError:
            return
        if changed == self._status_time:
            return
        self._status_time = changed
        found = status.read(self._status_file)
        if found is None:  # the next one may be whole again; the run does not depend on it
            return
        self._clock = WallClock(found.origin, found.dilation)
        self._scored = found.scored
        if found.problems > self._problems:
            self._problems = found.problems
            self._view.note(found.last_problem)
        self._view.status(found)

    def _meter_host(self) -> None:
        if self._rapl is not None:
            self._rapl.read(time.monotonic())
        elif self._clock is not None:
            self._rapl = rapl.RaplMeter(time.monotonic())

    # ---- deaths

    def _note_end(self, name: str, code: int | None) -> None:
        if code == 0:
            if name in self._devices:  # it was asked to stop: the run is over
                self._over = True
                self._schedule.drop(self._devices)  # the evaluator is still needed for the last score
            return
        # if the aggregator has ended, too, report only that: all end together if the template dies
        if AGGREGATOR not in self._alive or self._signals_passed_on:
            return
        why = self._processes.why(name)
        if self._stopping.count:  # nothing restarts any more, and the run ends as one that was stopped
            self._view.note(why)
        elif self._clock is None:
            raise RunFailed(why)
        elif name == EVALUATOR:
            self._note_evaluator(name, why)
        elif name in self._devices and not self._over:
            self._note_device(name, why)
        else:
            self._view.note(why)

    def _note_device(self, name: str, why: str) -> None:
        seconds = self._restarts.after_death(name, time.monotonic())
        if seconds is None:
            self._view.note(why)
        else:
            self._view.note(f"{why}; restart in {seconds:g} s")
            self._fork_later(name, seconds)

    def _note_evaluator(self, name: str, why: str) -> None:
        seconds = self._evaluators.after_death(self._scored)
        if seconds is not None:
            self._view.note(f"{why}; restart in {seconds:g} s")
            self._fork_later(name, seconds)
        elif self._evaluators.needed:
            raise RunFailed(
                f"{why}; so did {MOST_EVALUATORS - 1} others, and only a score could end the run: set stop.seconds"
            )
        else:
            self._view.note(f"{why}; so did {MOST_EVALUATORS - 1} others: the run continues without scores")

    def _fork_later(self, name: str, seconds: float) -> None:
        assert self._clock is not None
        moment = self._clock.now() + seconds / self._clock.dilation
        boot = BOOT_SECONDS / self._clock.dilation
        self._schedule.add(ScheduledAction(moment=moment, at=moment + boot, device=name, do="restart"))

    def _all_devices_died(self) -> bool:
        """Whether all devices died and none will return.

        A normal exit (code 0) or a scripted kill is no failure, nor is any death after the signal to stop.
        """
        if self._clock is None or self._stopping.count or not self._alive.keys().isdisjoint(self._devices):
            return False
        if self._killed.issuperset(self._devices) or self._schedule.forks_any(self._devices):
            return False
        return all(self._processes[name].exitcode for name in self._devices if name not in self._killed)

    # ---- the schedule

    def _seconds_to_next_action(self) -> float:
        """Host seconds until the next scheduled action, at most until the next look at the status."""
        if self._clock is None:
            return POLL_SECONDS
        left = self._clock.host_seconds(self._schedule.next - self._clock.now())
        return min(POLL_SECONDS, max(0.0, left))

    def _follow_schedule(self) -> None:
        """Carry out the kills and forks that are due."""
        if self._stopping.count:
            self._schedule.clear()
        while self._clock is not None and self._schedule.next <= self._clock.now():
            act = self._schedule.take()
            if act.do == "kill":
                self._processes.kill(act.device)
                self._alive.pop(act.device, None)  # its death need not be noted
                self._killed.add(act.device)
            else:
                self._fork_again(act, self._clock)

    def _fork_again(self, act: ScheduledAction, clock: WallClock) -> None:
        if act.device == EVALUATOR:
            config: DeviceConfig | EvaluatorConfig = self._evaluator
        else:
            config = replace(self._devices[act.device], rejoining=Rejoining(at=act.at, origin=clock.origin))
        try:
            self._processes.fork(act.device, config)
        except RunFailed as failure:
            if act.do == "rejoin":
                raise
            (self._note_evaluator if act.device == EVALUATOR else self._note_device)(act.device, str(failure))
            return
        self._alive[act.device] = self._processes[act.device]
        self._killed.discard(act.device)
        self._restarts.began(act.device, time.monotonic())
