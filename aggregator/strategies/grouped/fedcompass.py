"""FedCompass: each device gets so many local steps that groups of devices answer at the same moment.

Li, Chaturvedi, He, Chen, Singh, Kindratenko, Huerta, Kim, Madduri: FedCompass: Efficient Cross-Silo Federated Learning
on Heterogeneous Client Devices Using a Computing Power-Aware Scheduler. ICLR 2024 (arXiv:2309.14675).

Symbols
    Q_min, Q_max    fewest and most local steps of a job
    S_i             speed of device i: seconds per local step, from dispatch to arrival
    T_a, T_max      expected and latest arrival time of an arrival group
    λ               latency factor: a new group has T_max − now = λ·(T_a − now)
    p_i             n_i/Σn, the share of device i in the samples of all devices
    s(τ)            (1 + τ)^−a

Rule
    a device needs a job:
    join    the group with the most steps Q = ⌊(T_a − now)/S_i⌋ of those with Q_min ≤ Q ≤ Q_max; else
    create  a group with the most steps Q = ⌊(T_max' + Q_max·S' − now)/S_i⌋ ≤ Q_max, where T_max' is the latest arrival
            time of another group and S' its smallest S, but at least Q_min; with Q_max if no group gives such a Q.
            T_a = now + Q·S_i,  T_max = now + λ·Q·S_i
    an update arrives:  S_i ← (1 − μ)·S_i + μ·(seconds per step of this job)
    first   job of a device: x ← x + α·s(τ_i)·p_i·Δ_i
    in time for its group: wait for all of the group, or T_max. Then x ← x + α Σ s(τ_i)·p_i·Δ_i over those that arrived
            and the general buffer; the fastest device gets its next job first
    late    it goes into the general buffer; its device gets the next job at once, with the present model

Readings
    The scheduler follows the authors' program (APPFL), which names α, a and μ. There p_i is 1/N by default.
    A first job has Q_min steps, so that all speeds are known soon; the authors' program has Q_max there.

Departures
    A device that leaves or gives up its upload leaves its group. A device that returns keeps its speed.
    Of several late updates of one device, the last one counts; the others are rejected.
    Groups whose T_max pass at once make one version.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from aggregator.pacing import idle_devices
from aggregator.strategy import Decision, Server, Strategy
from aggregator.strategy.vectors import add_scaled
from testbed.common.parameters import ParameterError, param
from testbed.wire.messages import Update
from testbed.wire.training_job import Job

_SHORTEST_STEP = 1e-9
"""Seconds, so that a job that took no time has a speed."""


@dataclass(kw_only=True, slots=True, eq=False)
class ArrivalGroup:
    """Devices that should answer at the same moment."""

    expected: float
    latest: float
    awaited: set[str] = field(default_factory=set)
    arrived: list[Update] = field(default_factory=list)

    def members(self) -> set[str]:
        return self.awaited | {update.device for update in self.arrived}


@dataclass(kw_only=True)
class FedCompass(Strategy):
    """Local steps by measured speed, so that groups of devices arrive together (Li et al., ICLR 2024)."""

    own_selection = "gives every device a place in a group"
    sets_steps = True

    q_min: int = param(5, "Q_min: fewest local steps of a job", at_least=1, below=1 << 31)
    q_max: int = param(25, "Q_max: most local steps of a job", at_least=1, below=1 << 31)
    lam: float = param(1.5, "λ: latency factor: latest seconds of a group ÷ expected seconds", at_least=1, at_most=1e6)
    mu: float = param(0.9, "μ: weight of the last job in the speed of a device", above=0, at_most=1)
    alpha: float = param(0.9, "α: server learning rate", above=0)
    a: float = param(0.5, "a: exponent of the damping (1 + τ)^−a", at_least=0)

    _groups: list[ArrivalGroup] = field(default_factory=list, init=False, repr=False)
    """Those whose latest arrival time is not over."""
    _group_of: dict[str, ArrivalGroup] = field(default_factory=dict, init=False, repr=False)
    """Busy device → its group, which may be over; not for a first job."""
    _late: dict[str, Update] = field(default_factory=dict, init=False, repr=False)
    """The general buffer, by device."""
    _speeds: dict[str, float] = field(default_factory=dict, init=False, repr=False)
    _jobs: dict[str, tuple[float, int]] = field(default_factory=dict, init=False, repr=False)
    """Device → when its last job was sent, and its steps."""

    def check(self, devices: int) -> None:
        if self.q_max < self.q_min:
            raise ParameterError(
                "q_max", f"is {self.q_max}; it must be at least q_min, which is {self.q_min}: raise it"
            )

    def job(self, device: str, server: Server) -> Job:
        return replace(server.job, steps=self._jobs[device][1], epochs=0)

    # ---- events

    def on_start(self, server: Server) -> Decision:
        return self._use_groups_that_are_due(server, start=server.devices)

    def on_join(self, device: str, server: Server) -> Decision:
        return self._use_groups_that_are_due(server, start=[device])

    def on_leave(self, device: str, server: Server) -> Decision:
        self._leave_group(device)
        return self._use_groups_that_are_due(server)

    def on_ready(self, device: str, server: Server) -> Decision:
        self._leave_group(device)
        return self._use_groups_that_are_due(server, start=[device])

    def on_wake(self, server: Server) -> Decision:
        return self._use_groups_that_are_due(server)

    def on_update(self, update: Update, server: Server) -> Decision:
        device = update.device
        self._measure(update, server.now)
        group = self._leave_group(device)
        if group is None:  # its first job
            return self._version([update], [device], server)
        if group in self._groups and server.now <= group.latest:
            group.arrived.append(update)
            return self._use_groups_that_are_due(server)
        older, self._late[device] = self._late.get(device), update
        decision = self._use_groups_that_are_due(server, start=[device])
        rejected = {} if older is None else {older.ticket: "its device sent a newer update, late as well"}
        return msgspec.structs.replace(decision, rejected=rejected)

    # ---- versions

    def _use_groups_that_are_due(self, server: Server, start: Iterable[str] = ()) -> Decision:
        """Make a version of the groups that have all arrived, or whose latest arrival time is over."""
        due = [group for group in self._groups if not group.awaited or group.latest <= server.now]
        self._groups = [group for group in self._groups if group not in due]
        arrived = [update for group in due for update in group.arrived]
        if not arrived:
            return self._with_jobs(Decision(), start, server)
        late, self._late = list(self._late.values()), {}
        waiting = idle_devices((update.device for update in arrived), server)
        return self._version([*late, *arrived], [*start, *waiting], server)

    def _version(self, updates: Sequence[Update], start: Iterable[str], server: Server) -> Decision:
        samples = sum(info.samples for info in server.known.values())
        model, applied = server.model.copy(), {}
        for update in updates:
            weight = self.alpha * (1 + server.staleness(update)) ** -self.a * update.samples / samples
            add_scaled(model, weight, update.delta)
            applied[update.ticket] = weight
        fastest_first = sorted(start, key=lambda device: self._speeds.get(device, math.inf))
        return self._with_jobs(Decision(model=model, applied=applied), fastest_first, server)

    # ---- the scheduler

    def _with_jobs(self, decision: Decision, devices: Iterable[str], server: Server) -> Decision:
        """Add a job for each of these devices, and the next moment at which a group is over."""
        train: Mapping[str, Job] = {device: self._next_job(device, server) for device in devices}
        wake_at = min((group.latest for group in self._groups), default=None)
        return msgspec.structs.replace(decision, train=train, wake_at=wake_at)

    def _next_job(self, device: str, server: Server) -> Job:
        steps = self.q_min if device not in self._speeds else self._assign(device, server.now)
        self._jobs[device] = (server.now, steps)
        return self.job(device, server)

    def _assign(self, device: str, now: float) -> int:
        """Let a device join a group, or create one for it. Return its steps."""
        speed = self._speeds[device]
        others = [group for group in self._groups if device not in group.members()]  # it may have left and returned
        found = [(math.floor((group.expected - now) / speed), group) for group in others]
        found = [(steps, group) for steps, group in found if self.q_min <= steps <= self.q_max]
        if found:
            steps, group = max(found, key=lambda pair: pair[0])
        else:
            steps = self._steps_of_a_new_group(speed, now)
            group = ArrivalGroup(expected=now + steps * speed, latest=now + self.lam * steps * speed)
            self._groups.append(group)
        group.awaited.add(device)
        self._group_of[device] = group
        return steps

    def _steps_of_a_new_group(self, speed: float, now: float) -> int:
        """Aim at the moment when another group may answer once more, so that its devices can join the new one."""
        again = [
            group.latest + self.q_max * min(self._speeds[member] for member in group.members())
            for group in self._groups
        ]
        steps = [math.floor((moment - now) / speed) for moment in again]
        return max(self.q_min, max((each for each in steps if each <= self.q_max), default=self.q_max))

    def _measure(self, update: Update, now: float) -> None:
        sent, steps = self._jobs[update.device]
        measured = max((now - sent) / steps, _SHORTEST_STEP)
        known = self._speeds.get(update.device, measured)
        self._speeds[update.device] = (1 - self.mu) * known + self.mu * measured

    def _leave_group(self, device: str) -> ArrivalGroup | None:
        group = self._group_of.pop(device, None)
        if group is not None:
            group.awaited.discard(device)
        return group
