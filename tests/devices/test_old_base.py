"""A device that trains the model it has again after a lost download."""

from __future__ import annotations

from devices.work import State
from testbed.emulation.faults import PlannedSuspension
from tests.devices.parts import LOST, Bench, FixedTimetable


def bench_that_loses(*downloads: tuple[int, int], how: str = "old_base") -> Bench:
    """Return a device that is idle at 5.0, after a job on version 3 (1.5). Download 0.25 s, steps 0.5 s."""
    bench = Bench(FixedTimetable(downloads=dict.fromkeys(downloads, LOST)), on_lost_download=how)
    bench.train(1, version=3, model=1.5)
    bench.run_until(5.0)
    return bench


def updates(bench: Bench) -> list[tuple[int, int]]:
    """Return the ticket and the version of each update."""
    return [(update.ticket, update.version) for _, update in bench.delivered]


def test_after_a_lost_download_an_idle_device_trains_its_last_model_under_the_new_ticket() -> None:
    bench = bench_that_loses((1, 0))
    bench.train(2, version=4, model=2.5)
    bench.run_until(6.0)
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.state, heartbeat.ticket, heartbeat.finished, heartbeat.drops) == ("training", 2, 1, 1)
    bench.run_until(20.0)
    assert bench.training.bases == [[1.5] * 4, [1.5] * 4]
    _, update = bench.delivered[1]
    assert (update.ticket, update.version) == (2, 3)
    assert (update.started, update.due) == (5.25, 7.75)  # from the moment at which the model was due
    assert [event.dropped for event in bench.of_kind("downloaded")] == [False, True]
    assert [event.ticket for event in bench.of_kind("trained")] == [1, 2]


def test_it_does_as_many_steps_as_the_new_ticket_wants() -> None:
    bench = bench_that_loses((1, 0))
    bench.train(2, steps=7, version=4)
    bench.run_until(20.0)
    assert bench.training.begun == [(0, 4), (1, 7)]
    assert bench.delivered[1][1].steps == 7


def test_it_may_train_the_same_model_in_many_jobs_until_a_new_one_arrives() -> None:
    bench = bench_that_loses((1, 0), (2, 0), (4, 0))
    for number in range(2, 6):
        bench.train(number, version=2 + number, model=float(number), at=10.0 * number)
    bench.run_until(70.0)
    assert updates(bench) == [(1, 3), (2, 3), (3, 3), (4, 6), (5, 6)]
    assert [base[0] for base in bench.training.bases] == [1.5, 1.5, 1.5, 4.0, 4.0]


def test_a_device_with_the_wait_policy_stays_idle() -> None:
    bench = bench_that_loses((1, 0), how="wait")
    bench.train(2, version=4)
    bench.run_until(20.0)
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.state, heartbeat.ticket, heartbeat.trains) == ("idle", 0, 2)
    assert len(bench.training.begun) == 1


def test_a_resend_changes_nothing_once_its_ticket_is_in_training() -> None:
    bench = bench_that_loses((1, 0))
    bench.train(2, version=4)
    bench.train(2, version=4, at=6.0)
    bench.run_until(20.0)
    assert updates(bench) == [(1, 3), (2, 3)]
    assert len(bench.of_kind("downloaded")) == 2


def test_a_device_without_any_model_stays_idle() -> None:
    bench = Bench(FixedTimetable(downloads={(0, 0): LOST}), on_lost_download="old_base")
    bench.train(1, version=3)
    bench.run_until(5.0)
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.state, heartbeat.ticket, heartbeat.finished, heartbeat.trains) == ("idle", 0, 0, 1)
    assert bench.training.begun == []
    bench.train(1, version=3)  # a resend
    bench.run_until(10.0)
    assert updates(bench) == [(1, 3)]


def test_a_busy_device_continues_its_old_work() -> None:
    bench = bench_that_loses((2, 0))
    bench.train(2, version=4, model=2.5)
    bench.train(3, version=5, model=3.5, at=6.0)
    bench.run_until(6.5)
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.state, heartbeat.ticket, heartbeat.drops) == ("training", 2, 1)
    bench.run_until(20.0)
    assert updates(bench) == [(1, 3), (2, 4)]
    assert len(bench.training.begun) == 2
    assert bench.of_kind("abandoned") == []


def test_a_train_that_follows_an_update_finds_its_upload_ended_even_if_it_claims_to_be_sent_before() -> None:
    """So does a strict replay that is behind its recording: it sends at the recorded moment, after this arrival."""
    timetable = FixedTimetable(downloads={(1, 0): LOST})
    bench = Bench(timetable, on_lost_download="old_base", lead=0.1, replays=True)
    bench.train(1, version=3, model=1.5)  # its update arrives at 2.75
    bench.run_until(2.74)
    bench.now = 2.77  # the process reads the message before it looks at what is due
    bench.train(2, version=4, model=2.5, sent=2.0)
    bench.run_until(20.0)
    assert updates(bench) == [(1, 3), (2, 3)]
    assert [(event.ticket, event.obtained) for event in bench.of_kind("uploaded")] == [(1, 0.5), (2, 0.5)]
    assert bench.of_kind("abandoned") == []


def test_a_new_model_replaces_the_work_on_the_old_one() -> None:
    bench = bench_that_loses((1, 0))
    bench.train(2, version=4)
    bench.train(3, version=5, model=3.5, at=6.0)
    bench.run_until(20.0)
    [abandoned] = bench.of_kind("abandoned")
    assert (abandoned.t, abandoned.ticket) == (6.25, 2)
    assert updates(bench) == [(1, 3), (3, 5)]
    assert bench.training.bases[-1] == [3.5] * 4


def test_a_model_that_waited_for_the_end_of_a_suspension_and_is_lost_then_does_not_replace_the_work() -> None:
    timetable = FixedTimetable(downloads={(1, 0): LOST}, suspensions={0: PlannedSuspension(at=0.5, seconds=3.0)})
    bench = Bench(timetable, on_lost_download="old_base")
    bench.train(1, version=3)
    bench.train(2, version=4, at=2.0)
    assert bench.device.state is State.SUSPENDED
    bench.run_until(20.0)
    assert updates(bench) == [(1, 3)]


def test_a_lost_final_model_does_not_start_a_job() -> None:
    bench = bench_that_loses((1, 0))
    bench.final(2)
    bench.run_until(20.0)
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.state, heartbeat.ticket, heartbeat.finished) == ("idle", 0, 1)
    assert len(bench.training.begun) == 1
