"""The replay certificate: how exactly a replay repeats the recorded run, computed from the two traces."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from testbed.analysis import trace_reading
from testbed.common.errors import UserError
from testbed.common.stats import quantile
from testbed.history import trace
from testbed.history.event_pass import Handlers, pass_events
from testbed.history.trace import TraceError
from testbed.profile.schema import Replay
from testbed.replay import replay_setup
from testbed.runs.results.replay_result import DelayErrors, ReplayCertificate

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


class ReplayObserver:
    """A checker that reads the delays and results from a trace.

    With ``name_of`` it is the recorded trace: devices that are not replayed are left out, transfers and suspensions
    count as they were due, and ``use`` chooses the seconds of computing, because a replay repeats these.
    The seconds of a transfer exclude absences, which depend on the clock. An upload with a grant is left out in the
    replay, because the strategy decides its seconds.
    """

    def __init__(self, name_of: Mapping[str, str] | None = None, use: str = "obtained") -> None:
        self.observed = Observed()
        self._name_of, self._use, self._recorded = name_of, use, name_of is not None
        self._job_of: dict[int, int] = {}
        self._arrivals: dict[str, int] = {}
        """Device → the number of its last arrival, from 0."""
        self._granted: set[int] = set()
        self._final: set[int] = set()

    def handlers(self) -> Handlers:
        return {
            trace.Stopped: self._stopped,
            trace.Aggregated: self._aggregated,
            trace.Dispatched: self._dispatched,
            trace.Downloaded: lambda event: self._transferred(event, "download"),
            trace.Uploaded: lambda event: self._transferred(event, "upload"),
            trace.Granted: self._grant,
            trace.Trained: self._trained,
            trace.Suspended: self._suspended,
            trace.Arrived: self._arrived,
        }

    def _name(self, device: str) -> str | None:
        """The device that repeats this one; None if none does."""
        return device if self._name_of is None else self._name_of.get(device)

    def _stopped(self, event: trace.Stopped) -> None:
        self.observed.model = event.model

    def _aggregated(self, event: trace.Aggregated) -> None:
        self.observed.versions = event.version

    def _dispatched(self, event: trace.Dispatched) -> None:
        if event.steps == 0:
            self._final.add(event.ticket)  # the final model or a gradient is no job: it has no recording

    def _grant(self, event: trace.Granted) -> None:
        if not self._recorded:
            self._granted.add(event.ticket)

    def _transferred(self, event: trace.TransferEvent, kind: str) -> None:
        name = self._name(event.device)
        if name is None or event.ticket in self._final:
            return
        self._job_of[event.ticket] = event.job
        place = kind, name, event.job, event.attempt
        self.observed.lost[place] = event.dropped
        if kind == "download" or event.ticket not in self._granted:
            seconds = event.asked if self._recorded else event.obtained
            self.observed.seconds[place] = seconds - (event.absent or 0.0)

    def _trained(self, event: trace.Trained) -> None:
        name = self._name(event.device)
        if name is None or event.ticket not in self._job_of:
            return
        place = "computing", name, self._job_of[event.ticket], 0
        if seconds := event.asked if self._use == "asked" else event.obtained:  # asked is 0 if it is not throttled
            self.observed.seconds[place], self.observed.steps[place] = seconds / event.steps, event.steps

    def _suspended(self, event: trace.Suspended) -> None:
        name = self._name(event.device)
        if name is not None and event.ticket in self._job_of and not event.away:
            seconds = event.asked if self._recorded else event.obtained
            self.observed.seconds["suspension", name, self._job_of[event.ticket], 0] = seconds

    def _arrived(self, event: trace.Arrived) -> None:
        name = self._name(event.device)
        if name is not None:
            number = self._arrivals[name] = self._arrivals.get(name, -1) + 1
            self.observed.arrivals.append((name, number))
            self.observed.staleness.append(event.staleness)
            self.observed.losses.append(event.loss)


def certify(replayed: Replay, devices: Sequence[str], observed: Observed) -> ReplayCertificate:
    """The certificate of a run that replayed the trace in ``replayed``.

    If the recording cannot be read any more, the certificate has only the reason.
    """
    assert replayed.trace is not None
    try:
        path = trace_reading.file_of(Path(replayed.trace))
        recorded = ReplayObserver(replay_setup.pairing(path, devices, replayed.devices), replayed.use)
        pass_events(trace.read(path), recorded)
    except (UserError, TraceError) as error:
        return ReplayCertificate(trace=replayed.trace, mode=replayed.mode, problem=str(error))
    certificate = ReplayCertificate(trace=str(path), mode=replayed.mode, end=replayed.end, use=replayed.use)
    return compare(recorded.observed, observed, certificate)


def compare(recorded: Observed, replayed: Observed, certificate: ReplayCertificate) -> ReplayCertificate:
    """Return the certificate with the figures of both runs; None where there was nothing to compare."""
    errors: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for place, seconds in replayed.seconds.items():
        if place in recorded.seconds:
            errors[place[0]].append(abs(seconds - recorded.seconds[place]) * replayed.steps.get(place, 1))
    every = [error for kind in KINDS for error in errors[kind]]
    common = recorded.lost.keys() & replayed.lost.keys()
    return replace(
        certificate,
        delays={kind: _quantiles(errors[kind]) for kind in KINDS} | {"all": _quantiles(every)},
        beyond_the_recording=sum(place not in recorded.seconds for place in replayed.seconds),
        arrivals=len(replayed.arrivals),
        arrivals_recorded=len(recorded.arrivals),
        arrivals_common=len(set(recorded.arrivals).intersection(replayed.arrivals)),
        arrivals_in_order=in_order(recorded.arrivals, replayed.arrivals),
        transfers_common=len(common),
        losses_differ=sum(recorded.lost[place] != replayed.lost[place] for place in common),
        same_staleness=recorded.staleness == replayed.staleness,
        same_losses=recorded.losses == replayed.losses,
        same_versions=recorded.versions == replayed.versions,
        same_arrivals=recorded.arrivals == replayed.arrivals,
        same_model=recorded.model == replayed.model if recorded.model and replayed.model else None,
        model=replayed.model,
    )


def departure(certificate: ReplayCertificate) -> str | None:
    """The respects in which a strict replay differs from the recorded run; None if it does not."""
    kept = {
        "arrivals": certificate.same_arrivals,
        "sequence of staleness": certificate.same_staleness,
        "local losses": certificate.same_losses,
        "number of versions": certificate.same_versions,
        "lost transfers": certificate.losses_differ == 0,
        "final model": certificate.same_model is not False,  # a run that was killed has none
    }
    return ", ".join(what for what, same in kept.items() if not same) or None


def _quantiles(errors: Sequence[float]) -> DelayErrors | None:
    if not errors:
        return None
    return DelayErrors(count=len(errors), p50_s=quantile(errors, 0.5), p99_s=quantile(errors, 0.99), max_s=max(errors))


def in_order(recorded: Sequence[tuple[str, int]], replayed: Sequence[tuple[str, int]]) -> float | None:
    """Share of the common arrivals that are in the recorded order: the longest increasing subsequence."""
    place = {arrival: i for i, arrival in enumerate(recorded)}
    places = [place[arrival] for arrival in replayed if arrival in place]
    tails: list[int] = []  # for each length, the smallest last place of an increasing subsequence
    for each in places:
        spot = bisect_left(tails, each)
        tails[spot : spot + 1] = [each]
    return len(tails) / len(places) if places else None
