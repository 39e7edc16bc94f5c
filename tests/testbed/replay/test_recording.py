"""A trace, split into the recorded jobs of each device; and a fault timetable that repeats them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from testbed.emulation.faults import PlannedSuspension, RecordedTimetable, SeededTimetable, TransferFate
from testbed.emulation.poison import Poison
from testbed.emulation.recorded import RecordedJob, RecordedSuspension, RecordedTransfer, Recording, read_jobs
from testbed.history import trace
from testbed.replay import recording

# ---- a trace by hand


def down(
    ticket: int, job: int, seconds: float, *, attempt: int = 0, dropped: bool = False, device: str = "a"
) -> trace.Downloaded:
    """A download that was received a quarter of a second after it was due."""
    return trace.Downloaded(
        t=0.0,
        device=device,
        ticket=ticket,
        job=job,
        attempt=attempt,
        sent=0.0,
        asked=seconds,
        obtained=seconds + 0.25,
        bytes=16,
        dropped=dropped,
    )


def up(
    ticket: int, job: int, seconds: float, *, attempt: int = 0, dropped: bool = False, device: str = "a"
) -> trace.Uploaded:
    return trace.Uploaded(
        t=0.0,
        device=device,
        ticket=ticket,
        job=job,
        attempt=attempt,
        sent=0.0,
        asked=seconds,
        obtained=seconds,
        bytes=16,
        dropped=dropped,
    )


def trained(
    ticket: int, *, steps: int = 4, asked: float = 2.0, obtained: float = 3.0, device: str = "a"
) -> trace.Event:
    return trace.Trained(
        t=0.0, device=device, ticket=ticket, steps=steps, asked=asked, obtained=obtained, checks=steps, misses=[]
    )


def abandoned(ticket: int, steps: int, seconds: float, device: str = "a") -> trace.Event:
    return trace.Abandoned(t=0.0, device=device, ticket=ticket, steps=steps, seconds=seconds, checks=steps, misses=[])


def suspended(
    ticket: int, steps: int, seconds: float, device: str = "a", *, away: bool = False, t: float = 0.0
) -> trace.Event:
    """A suspension that ended an eighth of a second late."""
    return trace.Suspended(
        t=t, device=device, ticket=ticket, steps=steps, asked=seconds, obtained=seconds + 0.125, away=away
    )


def split(folder: Path, events: Sequence[trace.Event], *devices: str, use: str = "obtained") -> dict[str, Recording]:
    """Device → the jobs in its file; for device ``a`` if none is named."""
    files = {device: f"{number}.jobs" for number, device in enumerate(devices or ("a",))}
    counts = recording.split(events, folder, files, use=use)
    found = {device: read_jobs(folder / file) for device, file in files.items()}
    assert counts == {device: len(jobs) for device, jobs in found.items()}
    return found


# ---- jobs


def test_a_job_has_its_transfers_its_seconds_per_step_and_its_suspension(tmp_path: Path) -> None:
    events = [down(1, 0, 0.5), suspended(1, 3, 1.5), trained(1), up(1, 0, 0.75)]
    assert split(tmp_path, events) == {
        "a": [
            RecordedJob(
                downloads=[RecordedTransfer(0.5, False)],
                uploads=[RecordedTransfer(0.75, False)],
                step_seconds=0.75,
                suspension=RecordedSuspension(3, 1.5),
            )
        ]
    }


def test_a_poisoned_job_has_its_poison(tmp_path: Path) -> None:
    poisoned = trace.Poisoned(t=0.0, device="a", ticket=2, how="noise", factor=3.0)
    unknown = trace.Poisoned(t=0.0, device="a", ticket=9, how="noise", factor=4.0)
    found = split(tmp_path, [down(1, 0, 0.5), down(2, 1, 0.5), trained(2), poisoned, unknown, up(2, 1, 0.75)])["a"]
    assert [job.poison for job in found] == [None, Poison("noise", 3.0)]


def test_events_may_be_passed_one_after_another_and_devices_added_on_the_way(tmp_path: Path) -> None:
    splitter = recording.RecordingSplitter(tmp_path, use="asked")
    splitter.add("a", "a.jobs")
    for event in (down(1, 0, 0.5), down(2, 0, 0.25, device="b"), trained(1)):
        splitter.take(event)
    splitter.add("b", "b.jobs")
    splitter.take(up(2, 0, 0.75, device="b"))
    assert splitter.close() == {"a": 1, "b": 1}
    assert read_jobs(tmp_path / "a.jobs") == [RecordedJob(downloads=[RecordedTransfer(0.5, False)], step_seconds=0.5)]
    assert read_jobs(tmp_path / "b.jobs") == [RecordedJob(uploads=[RecordedTransfer(0.75, False)])]


def test_transfers_and_suspensions_are_recorded_as_they_were_due(tmp_path: Path) -> None:
    late, suspension = down(1, 0, 0.5), suspended(1, 2, 1.5)
    assert isinstance(suspension, trace.Suspended)
    assert (late.obtained, suspension.obtained) == (0.75, 1.625)
    for use in ("asked", "obtained"):
        [job] = split(tmp_path, [late, suspension], use=use)["a"]
        assert (job.downloads, job.suspension) == ([RecordedTransfer(0.5, False)], RecordedSuspension(2, 1.5))


def test_every_attempt_at_a_transfer_is_recorded_in_order_with_its_loss(tmp_path: Path) -> None:
    events = [
        down(1, 0, 0.5, dropped=True),
        down(1, 0, 0.25, attempt=1),
        up(1, 0, 1.0, dropped=True),
        up(1, 0, 2.0, attempt=1, dropped=True),
        up(1, 0, 1.5, attempt=2),
    ]
    [job] = split(tmp_path, events)["a"]
    assert job.downloads == [RecordedTransfer(0.5, True), RecordedTransfer(0.25, False)]
    assert job.uploads == [RecordedTransfer(1.0, True), RecordedTransfer(2.0, True), RecordedTransfer(1.5, False)]


@pytest.mark.parametrize(("use", "seconds"), [("asked", 0.5), ("obtained", 0.75)])
def test_computing_is_recorded_as_asked_or_as_obtained(tmp_path: Path, use: str, seconds: float) -> None:
    [job] = split(tmp_path, [down(1, 0, 0.5), trained(1, steps=4, asked=2.0, obtained=3.0)], use=use)["a"]
    assert job.step_seconds == seconds


def test_a_device_that_is_not_throttled_has_no_asked_seconds_per_step(tmp_path: Path) -> None:
    """0 would give it deadlines that no device can keep."""
    [job] = split(tmp_path, [down(1, 0, 0.5), trained(1, asked=0.0, obtained=3.0)], use="asked")["a"]
    assert job.step_seconds is None


def test_abandoned_work_has_no_seconds_per_step(tmp_path: Path) -> None:
    """It may have ended within a step, or ahead of its deadline."""
    [job] = split(tmp_path, [down(1, 0, 0.5), abandoned(1, steps=2, seconds=1.5)])["a"]
    assert job == RecordedJob(downloads=[RecordedTransfer(0.5, False)])


def test_work_abandoned_during_its_upload_keeps_its_seconds_per_step(
    tmp_path: Path,
) -> None:
    events = [down(1, 0, 0.5), trained(1, steps=4, asked=2.0, obtained=3.0), abandoned(1, steps=4, seconds=3.0)]
    assert split(tmp_path, events)["a"][0].step_seconds == 0.75
    assert split(tmp_path, events, use="asked")["a"][0].step_seconds == 0.5


def test_an_absence_is_not_part_of_a_job(tmp_path: Path) -> None:
    events = [
        msgspec.structs.replace(down(1, 0, 2.5), absent=2.0),
        suspended(1, 1, 0.25),
        suspended(1, 3, 0.5, away=True),
        msgspec.structs.replace(up(1, 0, 4.0), absent=1.0),
    ]
    [job] = split(tmp_path, events)["a"]
    assert job == RecordedJob(
        downloads=[RecordedTransfer(0.5, False)],
        uploads=[RecordedTransfer(3.0, False)],
        suspension=RecordedSuspension(1, 0.25),
    )


# ---- the order of reports


def test_a_late_report_belongs_to_its_own_job(tmp_path: Path) -> None:
    events = [
        down(1, 0, 0.5),
        down(2, 1, 0.25),
        abandoned(1, steps=4, seconds=2.0),  # its model came while the first was computed
        down(3, 2, 0.125, dropped=True),
        trained(2, steps=2, obtained=2.0),
        up(2, 1, 0.75),
        down(3, 2, 0.125, attempt=1),
    ]
    assert split(tmp_path, events)["a"] == [
        RecordedJob(downloads=[RecordedTransfer(0.5, False)]),
        RecordedJob(
            downloads=[RecordedTransfer(0.25, False)], uploads=[RecordedTransfer(0.75, False)], step_seconds=1.0
        ),
        RecordedJob(downloads=[RecordedTransfer(0.125, True), RecordedTransfer(0.125, False)]),
    ]


def test_a_job_continues_while_the_models_of_later_jobs_are_lost(tmp_path: Path) -> None:
    """A strategy restarts a device again and again, and each of its models is lost."""
    lost = [down(2 + number, 1 + number, 0.25, dropped=True) for number in range(4)]
    first, *rest = split(tmp_path, [down(1, 0, 0.5), *lost, trained(1), up(1, 0, 0.75)])["a"]
    assert rest == [RecordedJob(downloads=[RecordedTransfer(0.25, True)])] * 4
    assert first == RecordedJob(
        downloads=[RecordedTransfer(0.5, False)], uploads=[RecordedTransfer(0.75, False)], step_seconds=0.75
    )


def test_work_is_abandoned_for_a_model_that_replaced_others_in_transfer(tmp_path: Path) -> None:
    """A download that the next one replaced before it ended is not reported."""
    first, *rest = split(tmp_path, [down(1, 0, 0.5), down(6, 5, 0.25), abandoned(1, steps=2, seconds=1.0)])["a"]
    assert rest == [RecordedJob()] * 4 + [RecordedJob(downloads=[RecordedTransfer(0.25, False)])]
    assert first == RecordedJob(downloads=[RecordedTransfer(0.5, False)])


def test_a_job_without_events_is_empty(tmp_path: Path) -> None:
    jobs = split(tmp_path, [down(1, 0, 0.5), down(4, 3, 0.25)])["a"]
    assert jobs == [
        RecordedJob(downloads=[RecordedTransfer(0.5, False)]),
        RecordedJob(),
        RecordedJob(),
        RecordedJob(downloads=[RecordedTransfer(0.25, False)]),
    ]


def test_computing_for_a_ticket_without_a_download_belongs_to_no_job(tmp_path: Path) -> None:
    assert split(tmp_path, [trained(7), abandoned(8, 1, 1.0), suspended(9, 1, 1.0)])["a"] == []


def test_each_device_has_its_own_file(tmp_path: Path) -> None:
    events = [down(1, 0, 0.5), down(2, 0, 0.25, device="b"), trained(2, device="b"), trained(1, obtained=1.0)]
    found = split(tmp_path, events, "a", "b")
    assert found == {
        "a": [RecordedJob(downloads=[RecordedTransfer(0.5, False)], step_seconds=0.25)],
        "b": [RecordedJob(downloads=[RecordedTransfer(0.25, False)], step_seconds=0.75)],
    }


def test_a_device_that_is_not_requested_has_no_file(tmp_path: Path) -> None:
    events = [down(1, 0, 0.5), down(2, 0, 0.25, device="stranger"), trained(2, device="stranger")]
    assert split(tmp_path, events) == {"a": [RecordedJob(downloads=[RecordedTransfer(0.5, False)])]}
    assert [path.name for path in tmp_path.iterdir()] == ["0.jobs"]


def test_a_device_that_never_had_a_job_has_an_empty_recording(tmp_path: Path) -> None:
    assert split(tmp_path, [down(1, 0, 0.5)], "a", "idle")["idle"] == []


@pytest.mark.parametrize("count", [63, 64, 65, 200])
def test_any_number_of_jobs_is_read_back_in_order(tmp_path: Path, count: int) -> None:
    events: list[trace.Event] = []
    for job in range(count):
        events += [down(job + 1, job, job / 8), trained(job + 1, steps=1, obtained=job + 1.0), up(job + 1, job, 0.5)]
    assert split(tmp_path, events)["a"] == [
        RecordedJob(
            downloads=[RecordedTransfer(job / 8, False)], uploads=[RecordedTransfer(0.5, False)], step_seconds=job + 1.0
        )
        for job in range(count)
    ]


def test_a_split_overwrites_its_files(tmp_path: Path) -> None:
    split(tmp_path, [down(1, 0, 0.5), down(2, 1, 0.5)])
    assert len(split(tmp_path, [down(1, 0, 0.25)])["a"]) == 1


# ---- a fault timetable from a recording

CHANCE = SeededTimetable(seed=1, device=0, download_drop=0.5, upload_drop=0.5, suspend=1.0, suspend_max=4.0)
JOBS = [
    RecordedJob(
        downloads=[RecordedTransfer(0.5, True), RecordedTransfer(0.25, False)],
        uploads=[RecordedTransfer(1.0, True), RecordedTransfer(0.75, False)],
        step_seconds=0.125,
        suspension=RecordedSuspension(3, 1.5),
    ),
    RecordedJob(downloads=[RecordedTransfer(2.0, False)], uploads=[RecordedTransfer(3.0, False)], step_seconds=4.0),
    RecordedJob(downloads=[RecordedTransfer(5.0, False)], step_seconds=6.0),  # the recorded run ended
]
ADDRESSES = [(job, attempt) for job in range(len(JOBS), 40) for attempt in range(3)]


def recorded(end: str = "loop", jobs: Recording = JOBS, otherwise: SeededTimetable = CHANCE) -> RecordedTimetable:
    return RecordedTimetable(jobs=jobs, end=end, otherwise=otherwise)


def fate(seconds: float, *, dropped: bool = False) -> TransferFate:
    return TransferFate(dropped=dropped, delay_noise=0.0, rate_noise=0.0, seconds=seconds)


def test_a_recorded_job_is_repeated_exactly() -> None:
    table = recorded()
    assert [table.download(0, 0), table.download(0, 1)] == [fate(0.5, dropped=True), fate(0.25)]
    assert [table.upload(0, 0), table.upload(0, 1)] == [fate(1.0, dropped=True), fate(0.75)]
    assert table.suspension(0) == PlannedSuspension(at=0.0, seconds=1.5, steps=3)
    assert table.step_seconds(0) == 0.125


def test_a_job_recorded_without_a_suspension_has_none() -> None:
    assert CHANCE.suspension(1) is not None
    assert recorded().suspension(1) is None


@pytest.mark.parametrize("attempt", [2, 3, 10])
def test_an_attempt_beyond_the_recorded_ones_takes_as_long_as_the_last_and_is_not_lost(attempt: int) -> None:
    assert recorded().download(0, attempt) == fate(0.25)
    assert recorded().upload(0, attempt) == fate(0.75)
    lost = RecordedJob(downloads=[RecordedTransfer(0.5, True)], uploads=[RecordedTransfer(1.5, True)])
    assert recorded(jobs=[lost]).download(0, attempt) == fate(0.5)
    assert recorded(jobs=[lost]).upload(0, attempt) == fate(1.5)


def test_the_upload_of_a_job_that_was_cut_off_is_drawn() -> None:
    table = recorded()
    assert [table.upload(2, attempt) for attempt in range(9)] == [CHANCE.upload(2, attempt) for attempt in range(9)]
    assert table.download(2, 0) == fate(5.0)


def test_the_download_of_a_job_without_events_is_drawn() -> None:
    jobs = [RecordedJob()] * 9
    table = recorded(jobs=jobs)
    assert [table.download(job, 0) for job in range(9)] == [CHANCE.download(job, 0) for job in range(9)]
    assert table.step_seconds(0) is None


def test_computing_that_was_cut_off_is_as_in_the_previous_job() -> None:
    """Otherwise it would take the seconds of the profile, which depend on the number of local steps."""
    jobs = [RecordedJob(), RecordedJob(step_seconds=0.5), RecordedJob(), RecordedJob(), RecordedJob(step_seconds=2.0)]
    assert [recorded(jobs=jobs).step_seconds(job) for job in range(6)] == [None, 0.5, 0.5, 0.5, 2.0, None]


def test_a_recording_with_a_loop_starts_again() -> None:
    table = recorded("loop")
    for job in range(12):
        assert table.download(job, 0) == table.download(job % 3, 0)
        assert table.suspension(job) == table.suspension(job % 3)
        assert table.step_seconds(job) == JOBS[job % 3].step_seconds
    assert table.upload(4, 0) == table.upload(1, 0) == fate(3.0)


def test_each_repetition_of_a_loop_has_its_own_draws() -> None:
    table = recorded("loop")
    repeated = range(2, 60, 3)
    assert [table.upload(job, 0) for job in repeated] == [CHANCE.upload(job, 0) for job in repeated]
    assert len({table.upload(job, 0) for job in repeated}) == len(repeated)


def test_resampling_draws_whole_jobs() -> None:
    table = recorded("resample")
    drawn = []
    for job in range(3, 203):
        seconds = table.step_seconds(job)
        [place] = [number for number, each in enumerate(JOBS) if each.step_seconds == seconds]
        drawn.append(place)
        assert table.download(job, 0) == table.download(place, 0)
        assert table.suspension(job) == table.suspension(place)
    # 200 draws at 1/3: mean 66.7, σ = √(200·1/3·2/3) = 6.67; 99.9 % lie within ± 3.29 σ = ± 21.9
    assert all(45 <= drawn.count(place) <= 88 for place in range(3))


def test_resampling_begins_after_the_recording() -> None:
    table = recorded("resample")
    assert [table.step_seconds(job) for job in range(3)] == [0.125, 4.0, 6.0]


def test_draws_do_not_depend_on_earlier_queries() -> None:
    def all_of(table: RecordedTimetable, address: tuple[int, int]) -> tuple[object, ...]:
        job, _ = address
        return table.download(*address), table.upload(*address), table.suspension(job), table.step_seconds(job)

    forward = [all_of(recorded("resample"), address) for address in ADDRESSES]
    table = recorded("resample")
    backward = [all_of(table, address) for address in reversed(ADDRESSES)]
    assert forward == backward[::-1]


def test_devices_and_seeds_draw_their_own_jobs() -> None:
    def drawn(otherwise: SeededTimetable) -> list[float | None]:
        return [recorded("resample", otherwise=otherwise).step_seconds(job) for job in range(3, 40)]

    others = [CHANCE, dataclasses.replace(CHANCE, device=1), dataclasses.replace(CHANCE, seed=2)]
    assert len({tuple(drawn(otherwise)) for otherwise in others}) == 3


@pytest.mark.parametrize(("end", "jobs"), [("stop", JOBS), ("loop", []), ("resample", []), ("stop", [])])
def test_after_its_end_or_without_jobs_a_recording_is_replaced_by_draws(end: str, jobs: Recording) -> None:
    table = recorded(end, jobs)
    for job, attempt in ADDRESSES:
        assert table.download(job, attempt) == CHANCE.download(job, attempt)
        assert table.upload(job, attempt) == CHANCE.upload(job, attempt)
        assert table.suspension(job) == CHANCE.suspension(job)
        assert table.step_seconds(job) is None


@pytest.mark.parametrize(("steps", "after"), [(10, 3), (4, 3), (3, 2), (2, 1), (1, 0)])
def test_a_job_with_fewer_steps_is_suspended_before_its_last_step_at_the_latest(steps: int, after: int) -> None:
    assert PlannedSuspension(at=0.0, seconds=1.5, steps=3).after(steps) == after


def test_a_job_that_starts_again_in_a_resumed_run_is_recorded_as_it_was_then() -> None:
    resumed = trace.Resumed(t=1.0, version=0, undone=0, dilation=1.0, started="")
    events = [
        down(1, 0, 0.5),
        trained(1),
        up(1, 0, 0.25, dropped=True),
        down(2, 0, 2.0, device="b"),
        resumed,
        trace.Resent(t=1.0, device="a", ticket=1),
        down(1, 0, 0.5),
        trained(1),
        up(1, 0, 0.25, dropped=True),
        up(1, 0, 0.75, attempt=1),
        trace.Resent(t=2.0, device="b", ticket=2),
        down(2, 0, 1.0, attempt=1, device="b"),
    ]
    found = recording.gather(events, use="obtained")
    assert found["a"][0].downloads == [RecordedTransfer(0.5, False)]
    assert found["a"][0].uploads == [RecordedTransfer(0.25, True), RecordedTransfer(0.75, False)]
    assert found["b"][0].downloads == [
        RecordedTransfer(2.0, False),
        RecordedTransfer(1.0, False),
    ]  # sent again, as at any other time
