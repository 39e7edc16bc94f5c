"""Which core each process of a run uses.

``roles_of`` reads off the host which cores there are for what; the planner then decides by the demand of the devices
whether they share the aggregator's core, and makes the ``CorePlan``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.host.priority import Policy
from testbed.host.topology import Topology

_ENOUGH_CORES = 3
"""With so many cores besides the aggregator's, the evaluator has one of them to itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorePlan:
    """The core of the aggregator, of the evaluator, and of each device in fleet order."""

    aggregator: int
    evaluator: int
    devices: tuple[int, ...]
    pinned: bool = True
    """If not, each device may use all cores in ``devices``: it has no deadlines, and the kernel balances the load."""
    policy: Policy = Policy.NICE
    """How the aggregator gets its core when it wakes."""

    @property
    def is_shared(self) -> bool:
        """Whether devices use the aggregator's core."""
        return self.aggregator in self.devices

    def cores_of(self, index: int) -> tuple[int, ...]:
        """Return the cores that a device may use."""
        return (self.devices[index],) if self.pinned else tuple(sorted(set(self.devices)))

    def __str__(self) -> str:
        used = sorted(set(self.devices))
        if self.pinned:
            places = ", ".join(f"{core} ({self.devices.count(core)})" for core in used)
        else:
            places = f"any of {', '.join(map(str, used))}"
        if self.evaluator == self.aggregator:
            return f"aggregator and evaluator on {self.aggregator}, devices on {places}"
        return f"aggregator on {self.aggregator}, evaluator on {self.evaluator}, devices on {places}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreRoles:
    """What the cores of this host are for, before the demand of the devices is known."""

    aggregator: int
    evaluator: int
    device_cores: tuple[int, ...]
    """Cores for devices only, the best ones first."""
    shareable: tuple[int, ...]
    """The same, and behind them the cores of the evaluator and the aggregator."""
    free: tuple[int, ...] = ()
    """Threads of the aggregator's physical core, which stay free: a process on them would slow the aggregator down."""
    policy: Policy = Policy.NICE
    """The strongest policy that the aggregator may use."""

    def apart(self, devices: int) -> CorePlan:
        """Return the plan with devices spread over their own cores, one by one."""
        cores = self.device_cores
        return self.plan([cores[i % len(cores)] for i in range(devices)])

    def plan(self, devices: Sequence[int], *, pinned: bool = True, has_links: bool = True) -> CorePlan:
        """Return the plan with these cores for the devices.

        With neither deadlines (not ``pinned``) nor links, nothing is due, and no policy is needed.
        """
        return CorePlan(
            aggregator=self.aggregator,
            evaluator=self.evaluator,
            devices=tuple(devices),
            pinned=pinned,
            policy=self.policy if pinned or has_links else Policy.NICE,
        )


def roles_of(topology: Topology, policy: Policy = Policy.NICE) -> CoreRoles:
    """Assign a role to each core.

    The last core is the aggregator's, because interrupts tend to occur on the first: a device that computes ahead can
    make up for the time that they take, the aggregator cannot. The other threads of its physical core stay free if
    at least two physical cores are left. The evaluator shares the aggregator's core, where it runs only when that core
    is idle; on larger hosts it has a core of its own. Devices use first one thread of each physical core, and the
    memory node of the aggregator before others.
    """
    *others, last = topology.cores
    free = tuple(topology.siblings[last]) if topology.physical >= 3 else ()
    others = [core for core in others if core not in free]
    others.sort(key=lambda core: (topology.node[core] != topology.node[last], _is_second_thread(core, topology), core))
    evaluator = others.pop() if len(others) >= _ENOUGH_CORES else last
    own = tuple(others) or (last,)
    shareable = tuple(dict.fromkeys((*own, evaluator, last)))
    return CoreRoles(
        aggregator=last, evaluator=evaluator, device_cores=own, shareable=shareable, free=free, policy=policy
    )


def _is_second_thread(core: int, topology: Topology) -> bool:
    return any(sibling < core for sibling in topology.siblings[core])
