"""Which core each device uses.

Theory of operation
    Devices with deadlines are pinned, each to one core. The plan is static: a process that moves loses its caches, and
    the canary of a core could not say whose steps it stands for. Devices are placed by demand, the largest first, each
    on the core with the least demand so far; the demand of aggregator and evaluator counts from the beginning.
    Devices without a throttle would use up a core that others have deadlines on. They get cores without deadlines: as
    many as there are such devices, or fewer, down to one, where the others need the rest.
    Devices may share the aggregator's core (ADR 27) if it gets that core whenever it wakes, needs little of it, and
    handles an update in a time that the slack of the devices absorbs. Then the certificate holds; its lines
    *aggregator*, *link delay* and *step time* show whether it did.
    A fleet without deadlines is not pinned: its devices use all cores, and the kernel balances the load.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

from testbed.host.core_plan import CorePlan, CoreRoles
from testbed.host.priority import Policy
from testbed.planning.demand import FleetDemand
from testbed.profile.fleet import DeviceSpec

_MOST_OF_AGGREGATOR = 0.25
"""The share of its core that the aggregator may need for devices to share it. The certificate warns from 0.5 on."""
_LONGEST_SERVICE = 0.01
"""Host seconds for one update. Devices compute 0.1 s ahead, and several updates may be due at once."""


def core_plans(demand: FleetDemand, roles: CoreRoles, sharing: str) -> Iterator[CorePlan]:
    """Yield the core plans that the key ``cores`` of a profile allows, the more exact ones first; at least one."""
    if not demand.steps:
        cores = roles.device_cores if sharing == "apart" else roles.shareable
        places = [cores[i % len(cores)] for i in range(len(demand.shares))]
        yield roles.plan(places, pinned=False, has_links=any(map(_has_link, demand.devices)))
        return
    if sharing != "shared":
        yield from _placed(demand, roles, roles.device_cores)
    if sharing == "shared" or (sharing == "auto" and _may_share(demand, roles)):
        yield from _placed(demand, roles, roles.shareable)


def _has_link(device: DeviceSpec) -> bool:
    """Whether transfers of this device are due at a moment."""
    return any(side.has_rate or side.delay or side.jitter for side in (device.up, device.down))


def _may_share(demand: FleetDemand, roles: CoreRoles) -> bool:
    """Whether the certificate will hold if devices share the aggregator's core."""
    return (
        roles.policy is not Policy.NICE
        and None not in demand.shares  # the updates of devices without a throttle cannot be planned
        and demand.aggregator <= _MOST_OF_AGGREGATOR
        and demand.service_seconds <= _LONGEST_SERVICE
    )


def _placed(demand: FleetDemand, roles: CoreRoles, cores: Sequence[int]) -> Iterator[CorePlan]:
    """Yield the plans on these cores: one, or several if some devices have no throttle."""
    before = {roles.aggregator: demand.aggregator}
    before[roles.evaluator] = before.get(roles.evaluator, 0.0) + demand.evaluator
    loads = {core: before.get(core, 0.0) for core in cores}
    free = [index for index, share in enumerate(demand.shares) if share is None]
    throttled = {index: share for index, share in enumerate(demand.shares) if share is not None}
    for chosen in _cores_without_deadlines(len(free), loads):
        places = _spread(throttled, {core: load for core, load in loads.items() if core not in chosen} or loads)
        places |= {index: chosen[i % len(chosen)] for i, index in enumerate(free)}
        yield roles.plan([places[index] for index in range(len(places))])


def _cores_without_deadlines(devices: int, loads: Mapping[int, float]) -> Iterator[tuple[int, ...]]:
    """Yield choices of cores for so many devices without a throttle, the one with the most cores first.

    Each choice leaves a core to the others, if there are two. Cores that neither aggregator nor evaluator use come
    first, since both are better off beside devices that wait for their deadlines.
    """
    idle = [core for core, load in loads.items() if not load]
    by_load = sorted(loads, key=lambda core: loads[core])
    count = min(devices, max(1, len(loads) - 1))
    if not count:
        yield ()
    while count:
        yield from dict.fromkeys(tuple(cores[-count:]) for cores in (idle, by_load) if cores)
        count //= 2


def _spread(shares: Mapping[int, float], loads: Mapping[int, float]) -> dict[int, int]:
    """Return a core for each device: the largest demand first, each on the core with the least demand so far."""
    heap = [(load, order, core) for order, (core, load) in enumerate(loads.items())]
    heapq.heapify(heap)
    places = {}
    for index in sorted(shares, key=lambda i: -shares[i]):
        load, order, core = heap[0]
        places[index] = core
        heapq.heapreplace(heap, (load + shares[index], order, core))
    return places
