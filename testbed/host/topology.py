"""Which cores of this host share hardware: threads of one physical core (SMT) and cores of one memory node (NUMA)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = Path("/sys/devices/system")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The cores that this process may use, by number, with their neighbours among them."""

    cores: tuple[int, ...]
    siblings: dict[int, tuple[int, ...]]
    """Core → the other threads of its physical core. Two threads that compute slow each other down."""
    node: dict[int, int]
    """Core → the memory node that is nearest to it."""

    @property
    def physical(self) -> int:
        """The number of physical cores."""
        return len({min(core, *self.siblings[core]) if self.siblings[core] else core for core in self.cores})

    @property
    def nodes(self) -> int:
        """The number of memory nodes."""
        return len(set(self.node.values()))


def read(available: Iterable[int], system: Path = _SYSTEM) -> Topology:
    """Read the topology of the available cores. Where the kernel does not report it, no core shares anything."""
    cores = tuple(sorted(available))
    siblings = {core: _siblings(core, cores, system) for core in cores}
    node = dict.fromkeys(cores, 0)
    for place in system.glob("node/node[0-9]*"):
        for core in _listed(place / "cpulist"):
            if core in node:
                node[core] = int(place.name.removeprefix("node"))
    return Topology(cores=cores, siblings=siblings, node=node)


def _siblings(core: int, cores: Sequence[int], system: Path) -> tuple[int, ...]:
    threads = _listed(system / f"cpu/cpu{core}/topology/thread_siblings_list")
    return tuple(other for other in threads if other != core and other in cores)


def _listed(path: Path) -> list[int]:
    """Return the numbers of a kernel list such as ``0-3,8``; none if it cannot be read."""
    try:
        ranges = [part.partition("-") for part in path.read_text(encoding="ascii").strip().split(",") if part]
    except OSError:
        return []
    return [core for first, _, last in ranges for core in range(int(first), int(last or first) + 1)]
