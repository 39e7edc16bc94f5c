"""Export of a run in the form of FedScale's tables: capacity and behaviour of each device, as JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from testbed.common.errors import UserError
from testbed.common.parameters import build
from testbed.history import trace
from testbed.history.trace import Event
from testbed.loading import profile_files
from testbed.traces.formats.fedscale_capacity import TRAINING
from testbed.wire.training_job import Job


class Client:
    """The sums of one device that FedScale's tables need."""

    def __init__(self) -> None:
        self.samples = self.trained = 0.0
        self.bits = self.moved = 0.0
        self.absences: list[tuple[float, float]] = []
        self.lives: list[tuple[float, float]] = []
        self._joined: float | None = None

    def joins(self, moment: float) -> None:
        self._joined = moment

    def leaves(self, moment: float) -> None:
        """End the present life, once: a device that is killed is reported missing later."""
        if self._joined is not None:
            self.lives.append((self._joined, moment))
            self._joined = None

    def present(self) -> Iterator[tuple[float, float]]:
        """Spans from joining to leaving, without suspensions."""
        for begin, end in self.lives:
            for gone, back in sorted(self.absences):
                if back > begin and gone < end:
                    if gone > begin:
                        yield begin, gone
                    begin = back
            if end > begin:
                yield begin, end


class ClientCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of FedScale's table of capacities."""

    computation: float
    """Milliseconds per sample, inference only."""
    communication: float
    """kbit/s."""


class ClientBehaviour(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of FedScale's table of behaviours: when a device was present, in seconds rounded to milliseconds."""

    duration: float
    finish_time: float
    model: str
    active: list[float]
    inactive: list[float]
    """Beginning and end of each span in which it was present."""


def run_to_fedscale(events: Iterable[Event], out: Path, job: Callable[[], Job]) -> list[Path]:
    """Write capacity and behaviour and return the paths; as JSON, because loading a pickle can run code."""
    clients, end = _clients(events, job)
    capacity = {
        name: ClientCapacity(
            computation=1000 * client.trained / client.samples / TRAINING,
            communication=client.bits / 1000 / client.moved,
        )
        for name, client in clients.items()
        if client.samples and client.moved
    }
    behaviour = {name: _behaviour(client, end) for name, client in clients.items()}
    if not capacity:
        raise UserError("no device finished a job on a link that takes time; choose a longer run")
    written = []
    for name, table in (("client_device_capacity", capacity), ("client_behave_trace", behaviour)):
        target = out / f"{name}.json"
        target.write_text(json.dumps(msgspec.to_builtins(table), indent=1) + "\n", encoding="utf-8")
        written.append(target)
    return written


def _clients(events: Iterable[Event], job: Callable[[], Job]) -> tuple[dict[str, Client], float]:
    """The sums of each device, and the end of the run."""
    clients: defaultdict[str, Client] = defaultdict(Client)
    owned: dict[str, int] = {}
    batches: Job | None = None
    end = 0.0
    for event in events:
        match event:
            case trace.Joined():
                owned[event.device] = event.samples
                clients[event.device].joins(event.t)
            case trace.Left() | trace.Scripted(do="kill"):
                clients[event.device].leaves(event.t)
            case trace.Trained():
                batches = batches or job()
                client = clients[event.device]
                client.samples += batches.samples_after(event.steps, max(1, owned.get(event.device, 1)))
                client.trained += event.obtained
            case trace.Downloaded() | trace.Uploaded():
                client = clients[event.device]
                client.bits += event.bytes * 8
                client.moved += event.obtained - (event.absent or 0.0)
            case trace.Suspended():
                clients[event.device].absences.append((event.since, event.t))
            case _:
                pass
        end = max(end, event.t)
    return clients, end


def _behaviour(client: Client, end: float) -> ClientBehaviour:
    client.leaves(end)
    spans = list(client.present())
    return ClientBehaviour(
        duration=round(end, 3),
        finish_time=round(end, 3),
        model="edgebed",
        active=[round(begin, 3) for begin, _ in spans],
        inactive=[round(until, 3) for _, until in spans],
    )


def job_of(path: Path, batch: int | None) -> Job:
    """The local training of a run: from --batch, or from the profile beside its trace."""
    if batch is not None:
        return Job(batch=batch)
    profile = path.parent / "profile.toml"
    if not profile.is_file():
        raise UserError(f"{profile}: does not exist, so the samples per step are unknown; give them with --batch")
    return build(Job, profile_files.read_toml(profile).get("training", {}), str(profile), "training")
