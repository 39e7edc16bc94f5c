"""Preparing a replay: which device repeats which recording, and the recorded order of arrivals."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from testbed.analysis import trace_reading
from testbed.common.errors import ProfileError, UserError
from testbed.emulation.recorded import PreparedReplay, RecordedArrival
from testbed.history import trace
from testbed.history.trace import Event
from testbed.profile import fleet
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment
from testbed.profile.script import merge_absences
from testbed.replay import recording
from testbed.traces import availability
from testbed.traces.availability import Absence, AvailabilityTrace

_AFTERWARDS = 1.0
"""Minimum seconds for which a device is present after its last absence, if the recorded run ended earlier."""


@dataclass(slots=True)
class _Noted:
    """What a pass over the trace collects besides the jobs."""

    arrivals: list[RecordedArrival] = field(default_factory=list)
    away: dict[str, list[Absence]] = field(default_factory=lambda: defaultdict(list))
    wakes: int = 0
    last: float = 0.0
    torn: int | None = None
    unsettled: set[int] = field(default_factory=set)
    """Tickets whose update has arrived and that have not ended."""

    def note(self, event: Event) -> None:
        self.last = max(self.last, event.t)
        match event:
            case trace.Arrived():
                arrival = RecordedArrival(event.device, event.ticket, event.t, event.started, event.finished)
                self.arrivals.append(arrival)
                self.unsettled.add(event.ticket)
            case trace.Aggregated():
                self.unsettled.difference_update(event.tickets)
            case trace.Rejected() if event.ticket in self.unsettled:
                self.unsettled.remove(event.ticket)
            case trace.Rejected():  # an invalid update: the strategy saw only that its device is free again
                self.arrivals.append(RecordedArrival(event.device, event.ticket, event.t))
            case trace.Suspended() if event.away:
                self.away[event.device].append((event.since, event.back))
            case trace.Stopped():
                self.wakes = event.wakes
            case _:
                pass


def prepare(experiment: Experiment, devices: Sequence[str], folder: Path) -> PreparedReplay:
    """Split the trace that is to be replayed. Raises UserError if it does not fit the experiment."""
    assert experiment.replay.trace is not None
    path, noted = trace_reading.file_of(Path(experiment.replay.trace)), _Noted()
    header, joined, events = _beginning(trace_reading.events(path, lambda line: setattr(noted, "torn", line)), path)
    name_of = _pair([*joined], devices, experiment.replay.devices, path, experiment.name)
    if experiment.replay.mode == "strict":
        _check_same(header, [*joined], experiment, devices, path)
        _check_compression({name_of[each]: joined[each] for each in joined if each in name_of}, experiment, path)
        events = _unchanging(events, len(joined), experiment, path)
    folder.mkdir()
    files = {recorded: f"{number}.jobs" for number, recorded in enumerate(name_of)}
    jobs = recording.split(_noting(events, noted), folder, files, use=experiment.replay.use)
    arrivals = folder / "arrivals"
    arrivals.write_bytes(
        b"".join(
            msgspec.json.encode(msgspec.structs.replace(arrival, device=name_of[arrival.device])) + b"\n"
            for arrival in noted.arrivals
            if arrival.device in name_of
        )
    )
    return PreparedReplay(
        recordings={name_of[recorded]: str(folder / file) for recorded, file in files.items()},
        jobs={name_of[recorded]: count for recorded, count in jobs.items()},
        absences={
            name_of[recorded]: _write_absences(folder / f"{number}.csv", noted.away[recorded], noted.last)
            for number, recorded in enumerate(name_of)
            if noted.away[recorded]
        },
        arrivals=str(arrivals),
        wakes=noted.wakes,
        torn=noted.torn,
    )


def pairing(path: Path, devices: Sequence[str], by: str) -> dict[str, str]:
    """Recorded device → device that repeats its recording."""
    _, joined, _ = _beginning(trace_reading.events(path), path)
    return _pair([*joined], devices, by, path, str(path))


def with_recorded_absences(spec: DeviceSpec, replay: PreparedReplay) -> DeviceSpec:
    """The device with the absences of the recorded run instead of those of its profile."""
    return replace(spec, availability=replay.absences.get(spec.name), availability_offset=0.0)


def _beginning(events: Iterator[Event], path: Path) -> tuple[trace.Header, dict[str, str], Iterator[Event]]:
    """The header, the devices that joined at the start with their compression, and all events from the first one on."""
    seen: list[Event] = []
    for event in events:
        seen.append(event)
        if not isinstance(event, (trace.Header, trace.Joined, trace.Refusal)):
            break
    header = next((event for event in seen if not isinstance(event, trace.Refusal)), None)
    if not isinstance(header, trace.Header):
        raise UserError(f"{path}: has no header; it is not the trace of a run that began: replay another")
    joined = {event.device: event.compress_updates for event in seen if isinstance(event, trace.Joined)}
    return header, joined, itertools.chain(seen, events)


def _noting(events: Iterable[Event], noted: _Noted) -> Iterator[Event]:
    for event in events:
        noted.note(event)
        yield event


def _write_absences(path: Path, away: Iterable[Absence], last: float) -> str:
    """Write absences as an availability trace, which repeats when the recording is over."""
    merged = list(merge_absences(iter(sorted(away)), iter(())))
    rows = [(0.0, 1)] if merged[0][0] > 0 else []
    rows += [row for gone, back in merged for row in ((max(0.0, gone), 0), (back, 1))]
    moments, there = zip(*rows, strict=True)
    availability.write(path, AvailabilityTrace(moments, there, max(last, merged[-1][1] + _AFTERWARDS)))
    return str(path)


# ---- what does not fit


def _pair(recorded: Sequence[str], devices: Sequence[str], by: str, path: Path, source: str) -> dict[str, str]:
    key = "replay.devices"
    if by == "order":
        if len(recorded) < len(devices):
            problem = f"is order; {path} has {len(recorded)} devices, the experiment {len(devices)}"
            raise ProfileError(source, key, f"{problem}: use fewer devices, or pair by name")
        return dict(zip(recorded, devices, strict=False))
    missing = [device for device in devices if device not in recorded]
    if missing:
        problem = f"is {by}; {path} has no {missing[0]} (it has: {', '.join(recorded[:8])}{' …' * (len(recorded) > 8)})"
        remedy = "pair by order instead" if len(recorded) >= len(devices) else f"use {len(recorded)} devices or fewer"
        raise ProfileError(source, key, f"{problem}: {remedy}")
    unused = [device for device in recorded if device not in devices]
    if by == "same" and unused:
        more = f" and {len(unused) - 1} more" if len(unused) > 1 else ""
        problem = f"is same; no device repeats the recording of {unused[0]}{more} in {path}"
        raise ProfileError(source, key, f"{problem}: pair by name to leave them out")
    return {device: device for device in devices}


def _check_same(
    header: trace.Header, joined: Sequence[str], experiment: Experiment, devices: Sequence[str], path: Path
) -> None:
    """Raise ProfileError unless strategy, seeds and devices are the same, as a strict replay needs."""
    asked: dict[str, object] = {"strategy": experiment.strategy_name, "devices": len(devices)}
    recorded: dict[str, object] = {"strategy": header.strategy, "devices": len(joined)}
    bound = experiment.aggregator
    asked |= {"aggregator.clip": bound.clip, "aggregator.on_clip": "" if bound.clip is None else bound.on_clip}
    recorded |= {"aggregator.clip": header.clip, "aggregator.on_clip": header.on_clip}
    for seeds, of in ((asked, experiment), (recorded, header)):
        own = {"data_seed": of.data_seed, "model_seed": of.model_seed}
        seeds |= {"seed": of.seed, **{key: of.seed if seed is None else seed for key, seed in own.items()}}
    if header.strategy == experiment.strategy_name:
        asked |= _plain(experiment.strategy_parameters)
        recorded |= _plain(header.parameters)
    if sorted(range(len(devices)), key=lambda i: devices[i]) != sorted(range(len(joined)), key=lambda i: joined[i]):
        asked["devices"], recorded["devices"] = list(devices), list(joined)  # strategies iterate by name
    for key in asked | recorded:
        if asked.get(key) != recorded.get(key):
            was, remedy = f"{path} has {recorded.get(key)!r}", "strict repeats what was recorded: use mode schedule"
            raise ProfileError(experiment.name, key, f"is {asked.get(key)!r}, but {was}; {remedy}")


def _check_compression(recorded: Mapping[str, str], experiment: Experiment, path: Path) -> None:
    """Raise ProfileError unless each device compresses its updates as in the recorded run."""
    for device, group in fleet.members(experiment):
        given = experiment.compression_of(group)
        was = recorded.get(device, given)
        if given != was:
            problem = f"is {given!r} on {device}, but {path} has {was!r}"
            remedy = "strict repeats what was recorded: use mode schedule"
            raise ProfileError(experiment.name, "compress_updates", f"{problem}; {remedy}")


def _plain(parameters: dict[str, object]) -> dict[str, object]:
    """Parameters as in the header of a trace, which is JSON."""
    given = msgspec.json.decode(msgspec.json.encode(parameters))
    return {f"strategy.{key}": value for key, value in given.items()}


def _unchanging(events: Iterable[Event], devices: int, experiment: Experiment, path: Path) -> Iterator[Event]:
    """Pass events on. Raises ProfileError if a device left, came back or gave up: its moment depends on the host; or
    if devices have lost residuals because the run was resumed.
    """
    joined = 0
    for event in events:
        joined += isinstance(event, trace.Joined)
        if isinstance(event, trace.Resumed) and experiment.compresses_updates:
            problem = f"is strict, but {path} was resumed at {event.t:.3f} s, where its devices lost their residuals"
            remedy = "a strict replay with compress_updates cannot repeat that: use mode schedule"
            raise ProfileError(experiment.name, "replay.mode", f"{problem}; {remedy}")
        if isinstance(event, (trace.Left, trace.Lost)) or joined > devices:
            device, problem = getattr(event, "device", "a device"), "a strict replay orders arrivals only"
            raise ProfileError(
                experiment.name,
                "replay.mode",
                f"is strict, but in {path} {device} left, came back or gave up an upload at {event.t:.3f} s;"
                f" {problem}: use mode schedule",
            )
        yield event
