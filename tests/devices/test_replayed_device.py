"""A replayed device: its n-th job has the delays, losses and suspensions of the recorded one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.process.main import DeviceProcess
from testbed.emulation import recorded
from testbed.emulation.faults import PlannedSuspension, RecordedTimetable, SeededTimetable, TransferFate
from testbed.emulation.recorded import RecordedJob, RecordedSuspension, RecordedTransfer, Recording
from testbed.history import trace
from testbed.loading.profile_loader import load
from testbed.profile.schema import Direction, Phase
from testbed.replay import recording, replay_setup
from testbed.wire.messages import Stop, Update, Welcome
from tests.devices.parts import LOST, SMOOTH, Bench, FixedTimetable, Time, kind_of
from tests.devices.process.test_main import CONFIG, ScriptedPeer, job
from tests.devices.tiny import TinyTask
from tests.properties import examples
from tests.testbed.examples import write_profile
from tests.testbed.replay.test_replay_setup import HEADER, joined

CHANCE = SeededTimetable(seed=1, device=0, noisy_download=False, noisy_upload=False)
SLOT = 64.0
"""Any job of these tests ends within so many seconds."""


def timetable(*jobs: RecordedJob, end: str = "loop") -> RecordedTimetable:
    return RecordedTimetable(jobs=list(jobs), end=end, otherwise=CHANCE)


def smooth(step_seconds: float | None, suspension: RecordedSuspension | None = None) -> RecordedJob:
    """Return a job with a download of 0.75 s and an upload of 1 s."""
    return RecordedJob(
        downloads=[RecordedTransfer(0.75, False)],
        uploads=[RecordedTransfer(1.0, False)],
        step_seconds=step_seconds,
        suspension=suspension,
    )


def test_a_job_takes_exactly_what_was_recorded() -> None:
    recorded = RecordedJob(
        downloads=[RecordedTransfer(0.75, False)],
        uploads=[RecordedTransfer(1.0, True), RecordedTransfer(0.5, False)],
        step_seconds=0.25,
        suspension=RecordedSuspension(2, 1.5),
    )
    bench = Bench(timetable(recorded))
    bench.train(1, steps=4)
    bench.run_until(10.0)
    # steps end at 1 and 1.25, a suspension until 2.75, steps end at 3 and 3.25
    assert bench.times == [
        ("downloaded", 0.75),
        ("suspended", 2.75),
        ("trained", 3.25),
        ("uploaded", 4.25),
        ("uploaded", 4.75),
    ]
    assert bench.dues == [(1, 4.75)]
    [suspended] = bench.of_kind("suspended")
    assert (suspended.ticket, suspended.steps, suspended.asked, suspended.obtained) == (1, 2, 1.5, 1.5)
    [trained] = bench.of_kind("trained")
    assert (trained.asked, trained.obtained) == (1.0, 1.0)
    assert [(event.asked, event.dropped) for event in bench.of_kind("uploaded")] == [(1.0, True), (0.5, False)]


@pytest.mark.parametrize(
    ("steps", "suspended_after", "trained"),
    [(4, 2, 0.75 + 1.0 + 1.5), (8, 2, 0.75 + 2.0 + 1.5), (2, 1, 0.75 + 0.5 + 1.5), (1, 0, 0.75 + 0.25 + 1.5)],
)
def test_with_another_number_of_local_steps_the_seconds_per_step_stay(
    steps: int, suspended_after: int, trained: float
) -> None:
    bench = Bench(timetable(smooth(0.25, RecordedSuspension(2, 1.5))))
    bench.train(1, steps=steps)
    bench.run_until(10.0)
    assert [event.steps for event in bench.of_kind("suspended")] == [suspended_after]
    assert [event.t for event in bench.of_kind("trained")] == [trained]
    assert bench.dues == [(1, trained + 1.0)]


@pytest.mark.parametrize(
    "changes",
    [
        {"seconds_per_sample": 1.0},
        {"throttle": "none", "seconds_per_sample": None},
        {"schedule": (Phase(at=0.0, speed=0.25),)},
        {"down": Direction(delay=4.0, mbit=1e-4), "up": Direction(delay=4.0, jitter=2.0, drop=0.5)},
        {"suspend": 1.0, "suspend_max": 4.0},
    ],
    ids=lambda changes: "+".join(changes),
)
def test_the_profile_of_a_replayed_device_does_not_matter(changes: dict[str, Any]) -> None:
    bench = Bench(timetable(smooth(0.25)), **changes)
    bench.train(1, steps=4)
    bench.run_until(10.0)
    assert bench.times == [("downloaded", 0.75), ("trained", 1.75), ("uploaded", 2.75)]


def test_a_job_without_recorded_computing_is_as_fast_as_its_device() -> None:
    bench = Bench(timetable(smooth(None)), schedule=(Phase(at=0.0, speed=0.5),))
    bench.train(1, steps=4)
    bench.run_until(10.0)
    assert bench.times == [("downloaded", 0.75), ("trained", 4.75), ("uploaded", 5.75)]


def test_a_short_batch_takes_less_than_a_full_one_and_the_job_takes_the_recorded_seconds() -> None:
    done_at: list[float] = []
    bench = Bench(timetable(smooth(0.5)), samples=80, cost=1 / 64)  # an epoch: 32, 32 and 16 samples
    device, step = bench.device, bench.device.step
    device.step = lambda: (done_at.append(bench.now), step())[1]  # type: ignore[method-assign, func-returns-value]
    bench.train(1, steps=3)
    bench.run_until(10.0)
    assert done_at == pytest.approx([0.75, 0.75 + 0.6, 0.75 + 1.2])
    assert [event.t for event in bench.of_kind("trained")] == pytest.approx([0.75 + 1.5])


def test_a_lost_download_is_lost_again_and_its_resend_takes_its_own_time() -> None:
    recorded = RecordedJob(
        downloads=[RecordedTransfer(0.5, True), RecordedTransfer(2.0, False)],
        uploads=[RecordedTransfer(1.0, False)],
        step_seconds=0.25,
    )
    bench = Bench(timetable(recorded))
    bench.train(1, steps=4)
    bench.train(1, steps=4, at=1.0)
    bench.run_until(10.0)
    assert bench.times == [("downloaded", 0.5), ("downloaded", 3.0), ("trained", 4.0), ("uploaded", 5.0)]
    assert [event.dropped for event in bench.of_kind("downloaded")] == [True, False]


def test_each_job_has_its_own_recording_and_after_the_last_the_first_follows() -> None:
    bench = Bench(timetable(smooth(0.25), smooth(0.5)))
    for number in range(5):
        bench.train(number + 1, steps=4, at=number * SLOT)
    bench.run_until(5 * SLOT)
    assert [event.obtained for event in bench.of_kind("trained")] == [1.0, 2.0, 1.0, 2.0, 1.0]


def test_a_step_that_is_computed_too_late_is_late_in_a_replay_too() -> None:
    bench = Bench(timetable(smooth(0.25)), cost=0.5)
    bench.train(1, steps=2)
    bench.run_until(10.0)
    [trained] = bench.of_kind("trained")
    assert (trained.t, trained.asked, trained.obtained) == (1.75, 0.5, 1.0)


# ---- recording and replaying


def recorded_by(bench: Bench, folder: Path) -> Recording:
    recording.split(bench.events, folder, {"rpi-1": "jobs"}, use="obtained")
    return recorded.read_jobs(folder / "jobs")


def live(bench: Bench, jobs: int, steps: int = 4) -> Bench:
    """Begin each job, and each attempt at a lost download, in its own slot."""
    slot = 0
    for ticket in range(1, jobs + 1):
        while True:
            bench.train(ticket, steps=steps, at=slot * SLOT)
            slot += 1
            bench.run_until(slot * SLOT)
            if not bench.of_kind("downloaded")[-1].dropped:
                break
    return bench


def approximate_events(bench: Bench) -> list[tuple[str, Any, Any]]:
    """Return kind, moment and seconds of each event."""
    return [(kind, pytest.approx(moment), pytest.approx(seconds)) for kind, moment, seconds in events_of(bench)]


def events_of(bench: Bench) -> list[tuple[str, float, float]]:
    """Return kind, moment and seconds of each event."""
    return [
        (kind_of(event), event.t, getattr(event, "asked", getattr(event, "seconds", None))) for event in bench.events
    ]


def fates(chances: Mapping[tuple[int, int], bool]) -> dict[tuple[int, int], TransferFate]:
    return {address: LOST if lost else SMOOTH for address, lost in chances.items()}


ADDRESSES = [(number, attempt) for number in range(4) for attempt in range(3)]
LOSSES = st.fixed_dictionaries({address: st.booleans() for address in ADDRESSES})
SUSPENSIONS = st.dictionaries(
    st.integers(0, 3), st.builds(PlannedSuspension, at=st.floats(0, 0.99), seconds=st.floats(0.01, 4.0))
)


@examples(50)
@given(LOSSES, LOSSES, SUSPENSIONS, st.sampled_from(["retry", "next_tick", "give_up"]))
def test_recorded_jobs_can_be_replayed(
    tmp_path_factory: pytest.TempPathFactory,
    downloads: dict[Any, bool],
    uploads: dict[Any, bool],
    suspensions: dict[int, PlannedSuspension],
    on_drop: str,
) -> None:
    script = FixedTimetable(downloads=fates(downloads), uploads=fates(uploads), suspensions=suspensions)
    first = live(Bench(script, on_drop=on_drop), 4)
    jobs = recorded_by(first, tmp_path_factory.mktemp("recorded"))
    again = live(Bench(timetable(*jobs), on_drop=on_drop, seconds_per_sample=1.0, suspend=1.0), 4)
    assert events_of(again) == approximate_events(first)
    assert again.dues == [(ticket, pytest.approx(due)) for ticket, due in first.dues]


def test_a_recorded_job_that_was_replaced_can_be_replayed(tmp_path: Path) -> None:
    def restarted(bench: Bench) -> Bench:
        bench.train(1, steps=4)
        bench.train(2, steps=4, at=1.0)  # downloaded at 1.25, at the end of the second step
        bench.run_until(SLOT)
        return bench

    first = restarted(Bench())
    assert [kind for kind, _ in first.times] == ["downloaded", "downloaded", "abandoned", "trained", "uploaded"]
    again = restarted(Bench(timetable(*recorded_by(first, tmp_path)), seconds_per_sample=1.0))
    assert events_of(again) == approximate_events(first)


@pytest.mark.parametrize("restarted", [0.3125, 0.5, 0.75, 1.125, 1.75])
def test_the_steps_of_an_abandoned_job_take_the_same_time_in_a_replay_that_finishes_it(
    tmp_path: Path, restarted: float
) -> None:
    """Another strategy may finish a job that the recorded one abandoned."""
    bench = Bench()
    bench.train(1, steps=4)  # steps end at 0.75, 1.25, 1.75, 2.25
    bench.train(2, steps=4, at=restarted, sent=restarted - 0.25)
    bench.run_until(SLOT)
    assert len(bench.of_kind("abandoned")) == 1
    job, _ = recorded_by(bench, tmp_path)
    assert job.step_seconds in (0.5, None)  # None: by the profile, which is the same here


# ---- a device that was away when it was recorded


def availability(folder: Path, *rows: str) -> str:
    path = folder / "there.csv"
    path.write_text("\n".join(["t_s,available", *rows, "1000,", ""]), encoding="utf-8")
    return str(path)


def away_again(folder: Path, first: Bench) -> dict[str, str]:
    """Return the availability that a replay of the device's trace has."""
    writer = trace.TraceWriter(folder / "trace.jsonl")
    for event in (HEADER, joined("rpi-1"), *first.events):
        writer.write(event)
    writer.close()
    profile = write_profile(folder, 'strategy = "fedasync"\ndevices = [{ profile = "host", name = "rpi" }]\n')
    experiment = load(profile, [f"replay.trace={folder}"])
    absences = replay_setup.prepare(experiment, ["rpi-1"], folder / "replay").absences
    return {"availability": absences["rpi-1"]} if absences else {}


def there_and_back(tmp_path: Path, *rows: str, sent: float = 0.0) -> tuple[list[tuple[int, float]], Any]:
    """Return when the update was due in a run with this availability, and in its replay."""
    first = Bench(availability=availability(tmp_path, *rows))
    first.train(1, steps=4, at=sent)
    first.run_until(SLOT)
    again = Bench(timetable(*recorded_by(first, tmp_path)), **away_again(tmp_path, first))
    again.train(1, steps=4, at=sent)
    again.run_until(SLOT)
    return first.dues, [(ticket, pytest.approx(due)) for ticket, due in again.dues]


@pytest.mark.parametrize(
    ("rows", "seconds"),
    [
        (("0,1", "0.125,0", "1.125,1"), 0.25 + 1.0 + 2.0 + 0.5),
        (("0,1", "1,0", "2,1"), 0.25 + 2.0 + 1.0 + 0.5),
        (("0,1", "1,0", "2,1", "2.5,0", "4.5,1"), 0.25 + 2.0 + 1.0 + 2.0 + 0.5),
        (("0,1", "2.5,0", "4.5,1"), 0.25 + 2.0 + 2.0 + 0.5),
        (("0,0", "3,1"), 3.0 + 0.25 + 2.0 + 0.5),
    ],
    ids=["in its download", "computing", "twice", "in its upload", "at the start"],
)
def test_a_replay_with_absences_takes_as_long(tmp_path: Path, rows: tuple[str, ...], seconds: float) -> None:
    first, again = there_and_back(tmp_path, *rows)
    assert first == [(1, seconds)]
    assert again == first


def test_a_model_that_was_sent_in_an_absence_is_downloaded_as_late_in_the_replay(tmp_path: Path) -> None:
    first, again = there_and_back(tmp_path, "0,1", "1,0", "4,1", sent=2.0)
    assert first == [(1, 4.0 + 0.25 + 2.0 + 0.5)]
    assert again == first


def test_a_job_at_another_time_is_delayed_by_the_absences_of_that_time(tmp_path: Path) -> None:
    """Another strategy dispatches later: absences keep their moments, and the job takes as long as recorded."""
    first = Bench(availability=availability(tmp_path, "0,1", "1,0", "4,1"))
    first.train(1, steps=4)
    first.train(2, steps=4, at=20.0)
    first.run_until(SLOT)
    assert first.dues == [(1, 0.25 + 2.0 + 3.0 + 0.5), (2, 20.0 + 0.25 + 2.0 + 0.5)]
    again = Bench(timetable(*recorded_by(first, tmp_path)), **away_again(tmp_path, first))
    again.train(1, steps=4, at=8.0)
    again.run_until(SLOT)
    assert again.dues == [(1, pytest.approx(8.0 + 0.25 + 2.0 + 0.5))]


# ---- the process


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    own = Time()
    monkeypatch.setattr("testbed.common.clock.time", own)
    return own


def written(folder: Path, *jobs: RecordedJob) -> str:
    path = folder / "jobs"
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in jobs))
    return str(path)


def updates(time: Time, messages: Any, count: int, **config: Any) -> list[Update]:
    peer = ScriptedPeer(time, messages, updates=count)
    DeviceProcess(dataclasses.replace(CONFIG, **config), TinyTask(), peer, cores=(3,)).run()  # type: ignore[arg-type]
    return [update for _, update in peer.of(Update)]


def test_the_process_of_a_device_reads_its_recording(time: Time, tmp_path: Path) -> None:
    file = written(tmp_path, smooth(0.25, RecordedSuspension(1, 0.5)))
    [update] = updates(time, job(time, steps=2), 1, recording=file)
    assert (update.started, update.finished, update.due) == pytest.approx((0.75, 1.75, 2.75))


@pytest.mark.parametrize(("end", "seconds"), [("loop", 2.25), ("stop", 0.0)])
def test_the_process_of_a_device_knows_what_follows_the_end_of_its_recording(
    time: Time, tmp_path: Path, end: str, seconds: float
) -> None:
    welcome, first, end_of_run = job(time, steps=2)
    peer = Following(time, [welcome, first, msgspec.structs.replace(first, ticket=2, number=1, sent=10.0), end_of_run])
    config = dataclasses.replace(CONFIG, recording=written(tmp_path, smooth(0.25)), recording_end=end)
    DeviceProcess(config, TinyTask(), peer, cores=(3,)).run()  # type: ignore[arg-type]
    [_, update] = [update for _, update in peer.of(Update)]
    # the link and the host take no time, the recording does
    assert update.due - 10.0 == pytest.approx(seconds, abs=1e-3)


class Following(ScriptedPeer):
    """Hands out each Train at the moment at which it was sent, and Stop after two updates."""

    def __init__(self, time: Time, script: Any) -> None:
        super().__init__(time, script, updates=2)

    def receive(self, timeout: float) -> Any:
        head = self._script[0] if self._script else None
        due = getattr(head, "sent", 0.0)
        if not isinstance(head, (Welcome, Stop)) and self._time.now - self._began < due:
            self._time.sleep(min(timeout, due - (self._time.now - self._began)))
            return None
        return super().receive(timeout)
