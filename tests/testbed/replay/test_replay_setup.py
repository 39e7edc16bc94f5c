"""Preparing a replay: its trace, the pairing of devices, the order of arrivals, and what is refused."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testbed.analysis import trace_reading
from testbed.common.errors import ProfileError, UserError
from testbed.emulation.recorded import (
    PreparedReplay,
    RecordedArrival,
    RecordedJob,
    RecordedTransfer,
    Recording,
    read_arrivals,
    read_jobs,
)
from testbed.history import trace
from testbed.history.trace import TraceWriter
from testbed.loading import profile_loader
from testbed.profile.schema import Experiment, Replay
from testbed.replay import replay_setup
from testbed.runs.run_folder import RunFolder
from testbed.traces import availability
from tests.testbed.examples import write_profile
from tests.testbed.replay.test_recording import down, suspended, trained, up

PROFILE = 'strategy = "fedasync"\nseed = 7\nstop.seconds = 9\ndevices = [{ profile = "host", count = 2 }]\n'
HEADER = trace.Header(
    t=0.0,
    schema=trace.SCHEMA,
    name="n",
    strategy="fedasync",
    seed=7,
    dilation=1.0,
    demand=0.5,
    pressure=None,
    started="2024",
    host="h",
)


def joined(device: str) -> trace.Event:
    return trace.Joined(t=0.0, device=device, pid=1, cores=[0], samples=5)


def arrived(device: str, t: float, ticket: int = 1, staleness: int = 0) -> trace.Event:
    return trace.Arrived(
        t=t,
        device=device,
        ticket=ticket,
        due=t - 0.25,
        received=t,
        handled=t + 0.125,
        bytes=16,
        version=0,
        staleness=staleness,
        loss=None,
    )


def stopped(t: float, model: str = "") -> trace.Event:
    return trace.Stopped(t=t, reason="over", version=2, in_flight=0, wakes=3, model=model)


BEGINNING = (HEADER, joined("host-1"), joined("host-2"))
EVENTS = (
    *BEGINNING,
    down(1, 0, 0.5, device="host-1"),
    down(2, 0, 0.25, device="host-2"),
    trained(2, device="host-2"),
    up(2, 0, 0.125, device="host-2"),
    arrived("host-2", 1.5, ticket=2),
    trained(1, obtained=2.0, device="host-1"),
    up(1, 0, 0.75, device="host-1"),
    arrived("host-1", 2.5),
    down(3, 1, 0.25, device="host-2"),
    stopped(3.5),
)
BY_1 = RecordedJob(downloads=[RecordedTransfer(0.5, False)], uploads=[RecordedTransfer(0.75, False)], step_seconds=0.5)
BY_2 = [
    RecordedJob(downloads=[RecordedTransfer(0.25, False)], uploads=[RecordedTransfer(0.125, False)], step_seconds=0.75),
    RecordedJob(downloads=[RecordedTransfer(0.25, False)]),
]


def recorded(folder: Path, events: Sequence[trace.Event] = EVENTS) -> Path:
    """A run folder with a trace of these events."""
    run = folder / "recorded"
    run.mkdir(exist_ok=True)
    writer = TraceWriter(run / "trace.jsonl")
    for event in events:
        writer.write(event)
    writer.close()
    return run


def experiment(folder: Path, where: Path, *overrides: str, text: str = PROFILE, **options: str) -> Experiment:
    keys = ", ".join(f'{key} = "{value}"' for key, value in {"trace": where, **options}.items())
    return profile_loader.load(write_profile(folder, text), [f"replay={{{keys}}}", *overrides])


def prepare(
    folder: Path, where: Path, *overrides: str, fleet: Sequence[str] = ("host-1", "host-2"), **options: str
) -> PreparedReplay:
    return replay_setup.prepare(experiment(folder, where, *overrides, **options), fleet, folder / "private")


def refusal(folder: Path, where: Path, *overrides: str, **options: Any) -> str:
    with pytest.raises(UserError) as caught:
        prepare(folder, where, *overrides, **options)
    assert "\n" not in str(caught.value)
    assert not (folder / "private").exists()
    return str(caught.value)


def jobs_of(prepared: PreparedReplay) -> dict[str, Recording]:
    return {device: read_jobs(Path(file)) for device, file in prepared.recordings.items()}


# ---- what is prepared


def test_each_device_has_its_recording_and_arrivals_are_in_order(tmp_path: Path) -> None:
    prepared = prepare(tmp_path, recorded(tmp_path))
    assert jobs_of(prepared) == {"host-1": [BY_1], "host-2": BY_2}
    assert prepared.jobs == {"host-1": 1, "host-2": 2}
    assert read_arrivals(Path(prepared.arrivals)) == [
        RecordedArrival("host-2", 2, 1.5),
        RecordedArrival("host-1", 1, 2.5),
    ]
    assert prepared.wakes == 3


def test_the_profile_chooses_asked_or_obtained_computing(tmp_path: Path) -> None:
    prepared = prepare(tmp_path, recorded(tmp_path), use="asked")  # 2 s for 4 steps, in both
    assert [jobs[0].step_seconds for jobs in jobs_of(prepared).values()] == [0.5, 0.5]


def test_a_trace_may_be_named_by_itself_or_by_its_folder_and_may_be_packed(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    plain = run / "trace.jsonl"
    assert trace_reading.file_of(run) == trace_reading.file_of(plain) == plain
    packed = run / "trace.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert trace_reading.file_of(run) == plain
    plain.unlink()
    assert trace_reading.file_of(run) == trace_reading.file_of(packed) == packed
    assert jobs_of(prepare(tmp_path, run)) == {"host-1": [BY_1], "host-2": BY_2}


@pytest.mark.parametrize("name", ["nowhere", "recorded"])
def test_a_folder_without_a_trace_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "recorded").mkdir()
    with pytest.raises(UserError, match=f"{tmp_path / name}: (there is no such run folder|has no trace.jsonl)"):
        trace_reading.file_of(tmp_path / name)


def test_a_run_that_was_killed_can_be_replayed_up_to_its_last_event(tmp_path: Path) -> None:
    """Its last line is torn, and it has no end."""
    run = recorded(tmp_path)
    lines = (run / "trace.jsonl").read_bytes().splitlines(keepends=True)
    (run / "trace.jsonl").write_bytes(b"".join(lines[:-2]) + lines[-2][:20])
    prepared = prepare(tmp_path, run)
    assert jobs_of(prepared) == {"host-1": [BY_1], "host-2": BY_2[:1]}
    assert len(read_arrivals(Path(prepared.arrivals))) == 2
    assert prepared.wakes == 0


def test_a_line_in_the_middle_that_is_no_event_is_refused_with_its_number(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    lines = (run / "trace.jsonl").read_bytes().splitlines(keepends=True)
    (run / "trace.jsonl").write_bytes(b"".join([*lines[:5], b"{}\n", *lines[5:]]))
    with pytest.raises(UserError, match=r"trace\.jsonl, line 6: "):
        prepare(tmp_path, run)


@pytest.mark.parametrize("events", [(), EVENTS[1:], EVENTS[3:]], ids=["empty", "joined first", "jobs first"])
def test_a_trace_without_a_header_is_refused(tmp_path: Path, events: Sequence[trace.Event]) -> None:
    line = refusal(tmp_path, recorded(tmp_path, events))
    assert "line 1: no header comes before it" in line or "has no header; it is not the trace of a run that" in line


def test_a_refusal_before_the_header_is_accepted(tmp_path: Path) -> None:
    stranger = trace.Refusal(t=0.0, peer="stranger", reason="unknown device")
    prepared = prepare(tmp_path, recorded(tmp_path, [stranger, *EVENTS]))
    assert prepared.jobs == {"host-1": 1, "host-2": 2}


def test_the_final_model_is_no_job(tmp_path: Path) -> None:
    final = trace.Dispatched(t=3.0, device="host-1", ticket=9, version=2, steps=0)
    run = recorded(tmp_path, [*EVENTS[:-1], final, down(9, 1, 0.5, device="host-1"), stopped(9.0)])
    assert prepare(tmp_path, run).jobs == {"host-1": 1, "host-2": 2}


def test_a_recorded_arrival_has_the_moments_of_its_computing(tmp_path: Path) -> None:
    """A strategy may use them, and a step that is late in the replay must not change its decisions."""
    timed = msgspec.structs.replace(arrived("host-1", 2.75), started=1.0, finished=2.5)
    prepared = prepare(tmp_path, recorded(tmp_path, [*EVENTS[:-1], timed, stopped(9.0)]))
    assert read_arrivals(Path(prepared.arrivals))[-1] == RecordedArrival("host-1", 1, 2.75, 1.0, 2.5)


def test_an_invalid_update_is_a_recorded_arrival_and_a_rejected_one_is_recorded_once(tmp_path: Path) -> None:
    rejected = [trace.Rejected(t=2.75, device="host-1", ticket=ticket, reason="no") for ticket in (1, 7)]
    prepared = prepare(tmp_path, recorded(tmp_path, [*EVENTS[:-1], *rejected, EVENTS[-1]]))
    assert [arrival.ticket for arrival in read_arrivals(Path(prepared.arrivals))] == [2, 1, 7]


def test_a_device_is_absent_when_it_was_in_the_recording(tmp_path: Path) -> None:
    events = [suspended(1, 0, seconds, "host-1", away=True, t=t) for t, seconds in ((1.125, 1.0), (2.625, 0.5))]
    prepared = prepare(tmp_path, recorded(tmp_path, [*EVENTS[:-1], *events, stopped(8.0)]))
    assert list(prepared.absences) == ["host-1"]
    away = availability.read(Path(prepared.absences["host-1"]))
    # it looked up an eighth of a second after it was back
    assert list(itertools.islice(away.absences(0.0), 3)) == [(0.0, 1.0), (2.0, 2.5), (8.0, 9.0)]


# ---- pairing


def pairing(folder: Path, devices: Sequence[str], by: str) -> dict[str, str]:
    return replay_setup.pairing(recorded(folder) / "trace.jsonl", devices, by)


def test_devices_are_paired_by_name(tmp_path: Path) -> None:
    assert pairing(tmp_path, ["host-2", "host-1"], "name") == {"host-1": "host-1", "host-2": "host-2"}


def test_a_recorded_device_that_is_not_in_the_experiment_is_left_out(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    assert replay_setup.pairing(run / "trace.jsonl", ["host-2"], "name") == {"host-2": "host-2"}
    prepared = prepare(tmp_path, run, fleet=["host-2"])
    assert jobs_of(prepared) == {"host-2": BY_2}
    assert read_arrivals(Path(prepared.arrivals)) == [RecordedArrival("host-2", 2, 1.5)]


def test_a_recorded_device_that_is_left_over_may_be_refused(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    line = refusal(tmp_path, run, fleet=["host-2"], devices="same")
    assert "replay.devices is same; no device repeats the recording of host-1 in " in line
    assert line.endswith("trace.jsonl: pair by name to leave them out")
    assert prepare(tmp_path, run, devices="same").jobs == {"host-1": 1, "host-2": 2}


def test_devices_are_paired_by_the_order_in_which_they_joined(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    assert replay_setup.pairing(run / "trace.jsonl", ["z-1", "a-1"], "order") == {"host-1": "z-1", "host-2": "a-1"}
    prepared = prepare(tmp_path, run, fleet=["z-1", "a-1"], devices="order")
    assert jobs_of(prepared) == {"z-1": [BY_1], "a-1": BY_2}
    assert prepared.jobs == {"z-1": 1, "a-1": 2}
    assert read_arrivals(Path(prepared.arrivals)) == [RecordedArrival("a-1", 2, 1.5), RecordedArrival("z-1", 1, 2.5)]


def test_fewer_devices_than_recorded_repeat_the_first_ones(tmp_path: Path) -> None:
    assert pairing(tmp_path, ["z-1"], "order") == {"host-1": "z-1"}


def test_a_device_that_was_not_recorded_is_refused_with_a_remedy(tmp_path: Path) -> None:
    line = refusal(tmp_path, recorded(tmp_path), fleet=["host-1", "host-3"])
    assert "replay.devices is name; " in line
    assert line.endswith("has no host-3 (it has: host-1, host-2): pair by order instead")


def test_pairing_by_order_is_not_proposed_for_too_many_devices(tmp_path: Path) -> None:
    line = refusal(tmp_path, recorded(tmp_path), fleet=["host-1", "host-2", "host-3"])
    assert line.endswith("has no host-3 (it has: host-1, host-2): use 2 devices or fewer")


def test_the_first_of_many_recorded_devices_are_named(tmp_path: Path) -> None:
    events = [HEADER, *(joined(f"rpi4-{number}") for number in range(1, 12))]
    line = refusal(tmp_path, recorded(tmp_path, events))
    assert "has no host-1 (it has: rpi4-1, rpi4-2, rpi4-3, rpi4-4, rpi4-5, rpi4-6, rpi4-7, rpi4-8 …)" in line


def test_more_devices_than_were_recorded_are_refused(tmp_path: Path) -> None:
    line = refusal(tmp_path, recorded(tmp_path), fleet=["a-1", "a-2", "a-3"], devices="order")
    assert "replay.devices is order; " in line
    assert line.endswith("has 2 devices, the experiment 3: use fewer devices, or pair by name")


# ---- strict


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("strategy=fedavg", "strategy is 'fedavg', but"),
        ("seed=8", "seed is 8, but"),
        ("aggregator.clip=2.0", "aggregator.clip is 2.0, but"),
    ],
)
def test_a_strict_replay_needs_the_recorded_strategy_and_seed(tmp_path: Path, override: str, problem: str) -> None:
    run = recorded(tmp_path)
    line = refusal(tmp_path, run, override, mode="strict")
    assert problem in line
    assert line.endswith("strict repeats what was recorded: use mode schedule")
    assert prepare(tmp_path, run, override, mode="schedule").jobs == {"host-1": 1, "host-2": 2}


def strictly(folder: Path, *events: trace.Event, parameters: dict[str, Any] | None = None) -> Path:
    """A run whose header has the parameters of the strategy."""
    given = profile_loader.load(write_profile(folder, PROFILE)).strategy_parameters | (parameters or {})
    return recorded(folder, [msgspec.structs.replace(HEADER, parameters=given), *(events or EVENTS[1:])])


def test_a_strict_replay_of_the_same_strategy_is_prepared(tmp_path: Path) -> None:
    assert prepare(tmp_path, strictly(tmp_path), mode="strict").jobs == {"host-1": 1, "host-2": 2}


def test_a_strict_replay_needs_the_parameters_that_were_recorded(tmp_path: Path) -> None:
    run = strictly(tmp_path, parameters={"alpha": 0.25})
    assert "strategy.alpha is 0.6, but" in refusal(tmp_path, run, mode="strict")
    assert prepare(tmp_path, run, "strategy.alpha=0.25", mode="strict").jobs == {"host-1": 1, "host-2": 2}


def test_a_strict_replay_by_order_needs_names_that_sort_alike(tmp_path: Path) -> None:
    """Strategies iterate over devices by name."""
    run = strictly(tmp_path)
    line = refusal(tmp_path, run, fleet=["z-1", "a-1"], mode="strict", devices="order")
    assert "devices is ['z-1', 'a-1'], but" in line
    assert prepare(tmp_path, run, fleet=["a-1", "z-1"], mode="strict", devices="order").jobs == {"a-1": 1, "z-1": 2}


def test_a_strict_replay_needs_all_devices_that_were_recorded(tmp_path: Path) -> None:
    line = refusal(tmp_path, strictly(tmp_path), fleet=["host-2"], mode="strict")
    assert "devices is ['host-2'], but" in line


@pytest.mark.parametrize(
    "event",
    [
        trace.Left(t=2.75, device="host-2", reason="silent"),
        joined("host-2"),
        trace.Lost(t=2.75, device="host-2", ticket=3, reason="its upload was given up"),
    ],
)
def test_a_strict_replay_refuses_a_run_that_a_device_left_or_rejoined(tmp_path: Path, event: trace.Event) -> None:
    run = strictly(tmp_path, *EVENTS[1:-1], event, EVENTS[-1])
    with pytest.raises(ProfileError, match=r"replay\.mode is strict, but in .* host-2 left, .*: use mode schedule"):
        prepare(tmp_path, run, mode="strict")


def test_a_run_that_a_device_left_can_be_replayed_by_schedule(tmp_path: Path) -> None:
    left = trace.Left(t=2.75, device="host-2", reason="silent")
    run = strictly(tmp_path, *EVENTS[1:-1], left, EVENTS[-1])
    assert prepare(tmp_path, run).jobs == {"host-1": 1, "host-2": 2}


# ---- profiles


def test_nothing_is_replayed_by_default(tmp_path: Path) -> None:
    assert profile_loader.load(write_profile(tmp_path, PROFILE)).replay == Replay()
    assert Replay().trace is None


def test_the_path_of_a_trace_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recorded(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    beside_the_profile = experiment(tmp_path, Path("recorded"))
    monkeypatch.chdir(tmp_path)
    seen_from_here = experiment(tmp_path / "elsewhere", Path("recorded"))
    assert beside_the_profile.replay.trace == seen_from_here.replay.trace == str(run)


def test_a_stored_profile_with_a_replay_loads_to_the_same_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {"mode": "strict", "end": "resample", "use": "asked", "devices": "order"}
    first = experiment(tmp_path, recorded(tmp_path), **chosen)
    assert first.replay == Replay(trace=str(tmp_path / "recorded"), **chosen)
    folder = RunFolder.new(tmp_path / "runs", first.name, datetime(2024, 1, 2, 3, 4, 5))
    folder.write_profile(first)
    monkeypatch.chdir("/")
    assert profile_loader.load(folder.path / "profile.toml") == first


def wrong(folder: Path, *overrides: str, text: str = PROFILE) -> str:
    with pytest.raises(ProfileError) as caught:
        profile_loader.load(write_profile(folder, text), overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["nowhere", "a" * 300], ids=["absent", "too long for any file"])
def test_a_missing_trace_is_refused_before_a_process_starts(tmp_path: Path, name: str) -> None:
    line = wrong(tmp_path, f"replay.trace={name}")
    assert f"replay.trace is '{name}'; there is no such run folder or trace" in line


@pytest.mark.parametrize("throttle", ["cgroup", "signal"])
def test_a_quota_cannot_keep_recorded_times(tmp_path: Path, throttle: str) -> None:
    slow = f'{{ throttle = "{throttle}", of_host = 0.5 }}'
    fleet = f'devices=[{{ profile = "rpi4" }}, {{ name = "a", profile = {slow} }}]'
    profile_loader.load(write_profile(tmp_path, PROFILE), [fleet])
    line = wrong(tmp_path, f"replay.trace={recorded(tmp_path)}", fleet)
    assert f"devices[1].profile.throttle is '{throttle}'; a quota cannot meet recorded times" in line


def test_a_strict_replay_cannot_give_up_uploads_and_a_schedule_replay_can(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    group = 'devices=[{ profile = "host" }, { profile = "host", on_drop = "give_up" }]'
    line = wrong(tmp_path, f'replay={{trace = "{run}", mode = "strict"}}', group)
    assert "devices[1].on_drop is give_up; a strict replay knows only the order of arrivals" in line
    profile_loader.load(write_profile(tmp_path, PROFILE), [f"replay.trace={run}", group])


@pytest.mark.parametrize(
    ("key", "known"),
    [("mode", "schedule"), ("end", "resample"), ("use", "obtained"), ("devices", "order")],
)
def test_an_unknown_word_for_a_replay_is_refused_with_the_known_ones(tmp_path: Path, key: str, known: str) -> None:
    line = wrong(tmp_path, f"replay.trace={recorded(tmp_path)}", f"replay.{key}=sometimes")
    assert f"replay.{key} is 'sometimes'" in line
    assert known in line


# ---- compressed updates


def compressing(folder: Path, *methods: str, more: Sequence[trace.Event] = ()) -> Path:
    """A run whose devices compress their updates in these ways."""
    devices = [
        trace.Joined(t=0.0, device=f"host-{i}", pid=1, cores=[0], samples=5, compress_updates=method)
        for i, method in enumerate(methods, start=1)
    ]
    return strictly(folder, *devices, *EVENTS[len(BEGINNING) :], *more)


def test_a_strict_replay_needs_the_compression_that_was_recorded(tmp_path: Path) -> None:
    run = compressing(tmp_path, "int8", "int8")
    line = refusal(tmp_path, run, "compress_updates=topk:0.5", mode="strict")
    assert "compress_updates is 'topk:0.5' on host-1, but " in line
    assert line.endswith("has 'int8'; strict repeats what was recorded: use mode schedule")
    assert prepare(tmp_path, run, "compress_updates=int8", mode="strict").jobs == {"host-1": 1, "host-2": 2}


def test_a_strict_replay_needs_the_compression_of_each_device(tmp_path: Path) -> None:
    line = refusal(tmp_path, compressing(tmp_path, "none", "int8"), mode="strict")
    assert "compress_updates is 'none' on host-2, but " in line


def test_a_replay_by_schedule_may_have_another_compression(tmp_path: Path) -> None:
    run = compressing(tmp_path, "int8", "int8")
    assert prepare(tmp_path, run, "compress_updates=topk:0.5").jobs == {"host-1": 1, "host-2": 2}


RESUMED = trace.Resumed(t=3.25, version=1, undone=0, dilation=1.0, started="")


def test_a_strict_replay_cannot_repeat_residuals_that_were_lost_when_the_run_was_resumed(tmp_path: Path) -> None:
    run = compressing(tmp_path, "int8", "int8", more=[RESUMED])
    with pytest.raises(UserError, match=r"was resumed at 3\.250 s, where its devices lost their residuals; a strict "):
        prepare(tmp_path, run, "compress_updates=int8", mode="strict")


def test_a_strict_replay_repeats_a_resumed_run_without_compression(tmp_path: Path) -> None:
    run = compressing(tmp_path, "none", "none", more=[RESUMED])
    assert prepare(tmp_path, run, mode="strict").jobs == {"host-1": 1, "host-2": 2}
