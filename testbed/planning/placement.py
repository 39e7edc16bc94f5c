"""Which core each device uses.

Theory of operation
    Devices with deadlines are pinned, each to one core. The plan is static: a process that moves loses its caches, and
    the canary of a core could not say whose steps it stands for. Devices are placed by demand, the largest first, each
    on the core with the least demand so far; the demand of aggregator and evaluator counts from the beginning.
    Devices may share the aggregator's core (ADR 27) if it gets that core whenever it wakes, needs little of it, and
    handles an update in a time that the slack of the devices absorbs. Then the certificate holds; its lines
    *aggregator*, *link delay* and *step time* show whether it did.
    A fleet without deadlines is not pinned: its devices use all cores, and the kernel balances the load.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from testbed.host.core_plan import CorePlan, CoreRoles
from testbed.host.priority import Policy
from testbed.planning.demand import FleetDemand
from testbed.profile.fleet import DeviceSpec

_MOST_OF_AGGREGATOR = 0.25
"""The share of its core that the aggregator may need for devices to share it. The certificate warns from 0.5 on."""
_LONGEST_SERVICE = 0.01
"""Host seconds for one update. Devices compute 0.1 s ahead, and several updates may be due at once."""
_WHOLE = 1.0
"""The share of a device without a throttle: it uses whatever is left of its core."""


def core_plans(demand: FleetDemand, roles: CoreRoles, sharing: str) -> Iterator[CorePlan]:
    """Yield the core plans that the key ``cores`` of a profile allows, the more exact ones first; at least one."""
    if not demand.steps:
        cores = roles.device_cores if sharing == "apart" else roles.shareable
        places = [cores[i % len(cores)] for i in range(len(demand.shares))]
        yield roles.plan(places, pinned=False, has_links=any(map(_has_link, demand.devices)))
        return
    if sharing != "shared":
        yield _placed(demand, roles, roles.device_cores)
    if sharing == "shared" or (sharing == "auto" and _may_share(demand, roles)):
        yield _placed(demand, roles, roles.shareable)


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


def _placed(demand: FleetDemand, roles: CoreRoles, cores: Sequence[int]) -> CorePlan:
    """Place the devices, the largest demand first, each on the core with the least demand so far."""
    before = {roles.aggregator: demand.aggregator}
    before[roles.evaluator] = before.get(roles.evaluator, 0.0) + demand.evaluator
    loads = [(before.get(core, 0.0), order, core) for order, core in enumerate(cores)]
    heapq.heapify(loads)
    shares = [_WHOLE if share is None else share for share in demand.shares]
    places = [0] * len(shares)
    for index in sorted(range(len(shares)), key=lambda i: -shares[i]):
        load, order, core = loads[0]
        places[index] = core
        heapq.heapreplace(loads, (load + shares[index], order, core))
    return roles.plan(places)
