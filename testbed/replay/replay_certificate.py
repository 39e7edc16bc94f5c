"""The replay certificate: how exactly a replay repeats the recorded run, computed from the two traces."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.analysis import trace_reading
from testbed.common.stats import quantile
from testbed.history import trace
from testbed.history.trace import Event
from testbed.profile.schema import Replay
from testbed.replay import replay_setup

KINDS = ("computing", "download", "upload", "suspension")
Place = tuple[str, str, int, int]
"""Kind, device, number of its job, attempt."""


@dataclass(slots=True)
class Observed:
    """The delays, losses and results of one run."""

    seconds: dict[Place, float] = field(default_factory=dict)
    """For computing: seconds per step."""
    steps: dict[Place, int] = field(default_factory=dict)
    arrivals: list[tuple[str, int]] = field(default_factory=list)
    """Device, and the number of this arrival among its own."""
    staleness: list[int] = field(default_factory=list)
    losses: list[float | None] = field(default_factory=list)
    """Mean loss of the local steps of each update that arrived; equal losses mean equal models and batches."""
    lost: dict[Place, bool] = field(default_factory=dict)
    """Whether each attempt at a transfer was lost."""
    versions: int = 0
    model: str = ""


def certify(replayed: Replay, devices: Sequence[str], events: Iterable[Event]) -> dict[str, Any]:
    """The certificate of a run with these events that replayed the trace in ``replayed``."""
    assert replayed.trace is not None
    path = trace_reading.file_of(Path(replayed.trace))
    name_of = replay_setup.pairing(path, devices, replayed.devices)
    return {"trace": str(path), "mode": replayed.mode, "end": replayed.end, "use": replayed.use} | compare(
        observe(trace.read(path), name_of, replayed.use), observe(events)
    )


def observe(events: Iterable[Event], name_of: Mapping[str, str] | None = None, use: str = "obtained") -> Observed:
    """Read the delays and results from a trace.

    With ``name_of`` it is the recorded trace: devices that are not replayed are left out, transfers and suspensions
    count as they were due, and ``use`` chooses the seconds of computing, because a replay repeats these.
    The seconds of a transfer exclude absences, which depend on the clock. An upload with a grant is left out in the
    replay, because the strategy decides its seconds.
    """
    found, job_of, counts, granted, final = Observed(), {}, dict[str, int](), set[int](), set[int]()
    for event in events:
        if isinstance(event, trace.Stopped):
            found.model = event.model
        elif isinstance(event, trace.Aggregated):
            found.versions = event.version
        device = getattr(event, "device", None)
        if device is None or (name_of is not None and device not in name_of):
            continue
        name = name_of[device] if name_of is not None else device
        match event:
            case trace.Dispatched() if event.steps == 0:
                final.add(event.ticket)  # the final model is no job: it has no recording
            case trace.Downloaded() | trace.Uploaded() if event.ticket not in final:
                job_of[event.ticket] = event.job
                kind = "upload" if isinstance(event, trace.Uploaded) else "download"
                seconds = event.obtained if name_of is None else event.asked
                place = kind, name, event.job, event.attempt
                found.lost[place] = event.dropped
                if kind == "download" or event.ticket not in granted:
                    found.seconds[place] = seconds - (event.absent or 0.0)
            case trace.Granted() if name_of is None:
                granted.add(event.ticket)
            case trace.Trained() if event.ticket in job_of:
                place = "computing", name, job_of[event.ticket], 0
                if seconds := getattr(event, use):  # asked is 0 if the device is not throttled
                    found.seconds[place], found.steps[place] = seconds / event.steps, event.steps
            case trace.Suspended() if event.ticket in job_of and not event.away:
                seconds = event.obtained if name_of is None else event.asked
                found.seconds["suspension", name, job_of[event.ticket], 0] = seconds
            case trace.Arrived():
                counts[name] = counts.get(name, -1) + 1
                found.arrivals.append((name, counts[name]))
                found.staleness.append(event.staleness)
                found.losses.append(event.loss)
            case _:
                pass
    return found


def compare(recorded: Observed, replayed: Observed) -> dict[str, Any]:
    """The figures of replay.json; None if there was nothing to compare."""
    errors: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for place, seconds in replayed.seconds.items():
        if place in recorded.seconds:
            errors[place[0]].append(abs(seconds - recorded.seconds[place]) * replayed.steps.get(place, 1))
    every = [error for kind in KINDS for error in errors[kind]]
    common = recorded.lost.keys() & replayed.lost.keys()
    return {
        "delays": {kind: _quantiles(errors[kind]) for kind in KINDS} | {"all": _quantiles(every)},
        "beyond_the_recording": sum(place not in recorded.seconds for place in replayed.seconds),
        "arrivals": len(replayed.arrivals),
        "arrivals_recorded": len(recorded.arrivals),
        "arrivals_common": len(set(recorded.arrivals).intersection(replayed.arrivals)),
        "arrivals_in_order": in_order(recorded.arrivals, replayed.arrivals),
        "transfers_common": len(common),
        "losses_differ": sum(recorded.lost[place] != replayed.lost[place] for place in common),
        "same_staleness": recorded.staleness == replayed.staleness,
        "same_losses": recorded.losses == replayed.losses,
        "same_versions": recorded.versions == replayed.versions,
        "same_arrivals": recorded.arrivals == replayed.arrivals,
        "same_model": recorded.model == replayed.model if recorded.model and replayed.model else None,
        "model": replayed.model,
    }


def departure(certificate: dict[str, Any]) -> str | None:
    """The respects in which a strict replay differs from the recorded run; None if it does not."""
    kept = {
        "arrivals": certificate["same_arrivals"],
        "sequence of staleness": certificate["same_staleness"],
        "local losses": certificate["same_losses"],
        "number of versions": certificate["same_versions"],
        "lost transfers": certificate["losses_differ"] == 0,
        "final model": certificate["same_model"] is not False,  # a run that was killed has none
    }
    return ", ".join(what for what, same in kept.items() if not same) or None


def _quantiles(errors: Sequence[float]) -> dict[str, Any] | None:
    if not errors:
        return None
    return {"count": len(errors), "p50_s": quantile(errors, 0.5), "p99_s": quantile(errors, 0.99), "max_s": max(errors)}


def in_order(recorded: Sequence[tuple[str, int]], replayed: Sequence[tuple[str, int]]) -> float | None:
    """Share of the common arrivals that are in the recorded order: the longest increasing subsequence."""
    place = {arrival: i for i, arrival in enumerate(recorded)}
    places = [place[arrival] for arrival in replayed if arrival in place]
    tails: list[int] = []  # for each length, the smallest last place of an increasing subsequence
    for each in places:
        spot = bisect_left(tails, each)
        tails[spot : spot + 1] = [each]
    return len(tails) / len(places) if places else None
