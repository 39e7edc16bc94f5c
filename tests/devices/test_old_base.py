"""A device that trains on with the model it has, where a download is lost."""

from __future__ import annotations

from devices.work import State
from testbed.emulation.faults import PlannedSuspension
from tests.devices.parts import LOST, Bench, Script


def bench_that_loses(*downloads: tuple[int, int], how: str = "old_base") -> Bench:
    """The device has done a job on version 3, the model 1.5, and is idle at 5.0. Download 0.25 s, steps 0.5 s."""
    bench = Bench(Script(downloads=dict.fromkeys(downloads, LOST)), on_lost_download=how)
    bench.train(1, version=3, model=1.5)
    bench.run_until(5.0)
    return bench


def updates(bench: Bench) -> list[tuple[int, int]]:
    """Ticket and version of each update."""
    return [(update.ticket, update.version) for _, update in bench.delivered]


def test_after_a_lost_download_an_idle_device_trains_on_the_model_it_had_under_the_new_ticket() -> None:
    bench = bench_that_loses((1, 0))
    bench.train(2, version=4, model=2.5)
    bench.run_until(6.0)
    beat = bench.device.beat()
    assert (beat.state, beat.ticket, beat.finished, beat.drops) == ("training", 2, 1, 1)
    bench.run_until(20.0)
    assert bench.training.bases == [[1.5] * 4, [1.5] * 4]
    _, update = bench.delivered[1]
    assert (update.ticket, update.version) == (2, 3)
    assert (update.started, update.due) == (5.25, 7.75)  # from when the model should have been there
    assert [event["dropped"] for event in bench.of_kind("downloaded")] == [False, True]
    assert [event["ticket"] for event in bench.of_kind("trained")] == [1, 2]


def test_it_works_as_the_new_ticket_asks() -> None:
    bench = bench_that_loses((1, 0))
    bench.train(2, steps=7, version=4)
    bench.run_until(20.0)
    assert bench.training.begun == [(0, 4), (1, 7)]
    assert bench.delivered[1][1].steps == 7


def test_it_may_go_on_with_the_same_model_for_many_jobs_and_takes_the_next_that_comes() -> None:
    bench = bench_that_loses((1, 0), (2, 0), (4, 0))
    for number in range(2, 6):
        bench.train(number, version=2 + number, model=float(number), at=10.0 * number)
    bench.run_until(70.0)
    assert updates(bench) == [(1, 3), (2, 3), (3, 3), (4, 6), (5, 6)]
    assert [base[0] for base in bench.training.bases] == [1.5, 1.5, 1.5, 4.0, 4.0]


def test_a_device_that_waits_does_not_go_on() -> None:
    bench = bench_that_loses((1, 0), how="wait")
    bench.train(2, version=4)
    bench.run_until(20.0)
    beat = bench.device.beat()
    assert (beat.state, beat.ticket, beat.trains) == ("idle", 0, 2)
    assert len(bench.training.begun) == 1


def test_the_same_ticket_again_changes_nothing_once_it_trains_under_it() -> None:
    bench = bench_that_loses((1, 0))
    bench.train(2, version=4)
    bench.train(2, version=4, at=6.0)
    bench.run_until(20.0)
    assert updates(bench) == [(1, 3), (2, 3)]
    assert len(bench.of_kind("downloaded")) == 2


def test_without_any_model_there_is_nothing_to_go_on_with() -> None:
    bench = Bench(Script(downloads={(0, 0): LOST}), on_lost_download="old_base")
    bench.train(1, version=3)
    bench.run_until(5.0)
    beat = bench.device.beat()
    assert (beat.state, beat.ticket, beat.finished, beat.trains) == ("idle", 0, 0, 1)
    assert bench.training.begun == []
    bench.train(1, version=3)  # sent again
    bench.run_until(10.0)
    assert updates(bench) == [(1, 3)]


def test_a_busy_device_goes_on_with_its_old_work() -> None:
    bench = bench_that_loses((2, 0))
    bench.train(2, version=4, model=2.5)
    bench.train(3, version=5, model=3.5, at=6.0)
    bench.run_until(6.5)
    beat = bench.device.beat()
    assert (beat.state, beat.ticket, beat.drops) == ("training", 2, 1)
    bench.run_until(20.0)
    assert updates(bench) == [(1, 3), (2, 4)]
    assert len(bench.training.begun) == 2
    assert bench.of_kind("abandoned") == []


def test_a_device_whose_new_model_came_abandons_the_work_on_the_old_one() -> None:
    bench = bench_that_loses((1, 0))
    bench.train(2, version=4)
    bench.train(3, version=5, model=3.5, at=6.0)
    bench.run_until(20.0)
    [abandoned] = bench.of_kind("abandoned")
    assert (abandoned["t"], abandoned["ticket"]) == (6.25, 2)
    assert updates(bench) == [(1, 3), (3, 5)]
    assert bench.training.bases[-1] == [3.5] * 4


def test_a_model_that_waited_for_the_end_of_a_suspension_and_is_lost_then_leaves_the_work_in_hand() -> None:
    timetable = Script(downloads={(1, 0): LOST}, suspensions={0: PlannedSuspension(at=0.5, seconds=3.0)})
    bench = Bench(timetable, on_lost_download="old_base")
    bench.train(1, version=3)
    bench.train(2, version=4, at=2.0)
    assert bench.device.state is State.SUSPENDED
    bench.run_until(20.0)
    assert updates(bench) == [(1, 3)]


def test_the_final_model_that_is_lost_is_no_reason_to_train_on() -> None:
    bench = bench_that_loses((1, 0))
    bench.final(2)
    bench.run_until(20.0)
    beat = bench.device.beat()
    assert (beat.state, beat.ticket, beat.finished) == ("idle", 0, 1)
    assert len(bench.training.begun) == 1
