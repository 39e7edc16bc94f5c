from __future__ import annotations

import numpy as np
import pytest

from devices.device import State
from testbed.faults import Fate, Suspension
from testbed.profile import Direction
from tests.devices.parts import LOST, Bench, Script

HANG = Suspension(at=0.5, seconds=3.0)


# ---- the plain life of a job: download 0.25 s, four steps of 0.5 s, upload 0.5 s


def test_a_job_is_downloaded_trained_and_uploaded_at_its_times() -> None:
    bench = Bench()
    bench.train(1, at=1.0)
    bench.run_until(10.0)
    assert bench.times == [("downloaded", 1.25), ("trained", 3.25), ("uploaded", 3.75)]
    [(moment, update)] = bench.delivered
    assert moment == 3.75
    assert (update.device, update.ticket, update.version, update.samples, update.steps) == ("rpi-1", 1, 7, 128, 4)
    assert (update.started, update.finished, update.loss) == (1.25, 3.25, 2.5)
    np.testing.assert_array_equal(update.delta, np.zeros(4))
    assert bench.device.due() == float("inf")


def test_states_follow_the_job() -> None:
    bench = Bench()
    states = [bench.device.state]
    bench.train(1, at=1.0)
    for moment in (1.0, 1.25, 3.0, 3.25, 3.75):
        bench.run_until(moment)
        states.append(bench.device.state)
    assert states == [
        State.IDLE, State.DOWNLOADING, State.TRAINING, State.TRAINING, State.UPLOADING, State.IDLE,
    ]  # fmt: skip


def test_steps_are_computed_when_the_step_before_is_over() -> None:
    bench = Bench()
    bench.train(1)
    bench.run_until(1.0)  # work began at 0.25: steps at 0.25 and 0.75
    assert bench.device.beat().progress == 0.5
    assert bench.device.due() == 1.25


def test_events_carry_what_was_asked_and_what_was_obtained() -> None:
    bench = Bench(cost=0.625)  # every step takes longer than the 0.5 s it should
    bench.train(1)
    bench.run_until(10.0)
    # steps end at 0.875, 1.5, 2.125, 2.75; the last deadline was 2.25
    assert bench.of_kind("trained") == [
        {"kind": "trained", "t": 2.75, "device": "rpi-1", "ticket": 1, "steps": 4,
         "asked": 2.0, "obtained": 2.5, "late": 0.5},
    ]  # fmt: skip
    way = {"device": "rpi-1", "ticket": 1, "attempt": 0, "bytes": 16, "dropped": False}
    assert bench.of_kind("downloaded") == [{"kind": "downloaded", "t": 0.25, "asked": 0.25, "obtained": 0.25, **way}]
    assert bench.of_kind("uploaded") == [{"kind": "uploaded", "t": 3.25, "asked": 0.5, "obtained": 0.5, **way}]


def test_a_transfer_noticed_late_says_so() -> None:
    bench = Bench()
    bench.train(1)
    bench.device.advance(0.375)
    [event] = bench.device.take_events()
    assert (event["asked"], event["obtained"], event["t"]) == (0.25, 0.375, 0.375)


@pytest.mark.parametrize(("samples", "step"), [(100, 32), (32, 32), (16, 16)])
def test_a_step_is_paced_by_the_samples_in_it(samples: int, step: int) -> None:
    bench = Bench(samples=samples, seconds_per_sample=1 / 400)
    bench.train(1, steps=2)
    bench.run_until(10.0)
    assert bench.of_kind("trained")[0]["asked"] == pytest.approx(2 * step / 400)


def test_each_job_has_the_next_number() -> None:
    bench = Bench()
    bench.train(5, steps=2)
    bench.train(9, steps=3, at=5.0)
    bench.run_until(10.0)
    assert bench.training.begun == [(0, 2), (1, 3)]
    assert [float(update.delta[0]) for _, update in bench.delivered] == [0.0, 1.0]


def test_a_heartbeat_tells_everything_once() -> None:
    bench = Bench()
    bench.train(4)
    bench.device.advance(0.25)
    beat = bench.device.beat()
    assert (beat.device, beat.state, beat.ticket, beat.finished, beat.trains) == ("rpi-1", "training", 4, 0, 1)
    assert [event["kind"] for event in beat.events] == ["downloaded"]
    assert bench.device.beat().events == ()


# ---- lost downloads


def test_a_lost_download_leaves_the_device_idle_and_the_beat_shows_it() -> None:
    bench = Bench(Script(downloads={(0, 0): LOST}))
    bench.train(3, at=1.0)
    bench.run_until(5.0)
    assert bench.device.state is State.IDLE
    beat = bench.device.beat()
    assert (beat.ticket, beat.finished, beat.trains, beat.drops) == (0, 0, 1, 1)
    [event] = bench.of_kind("downloaded")
    assert (event["t"], event["attempt"], event["dropped"], event["bytes"]) == (1.25, 0, True, 16)


def test_the_same_ticket_again_is_the_next_attempt_at_the_same_job() -> None:
    slow = Fate(dropped=False, delay_noise=1.0, rate_noise=0.0)
    timetable = Script(downloads={(0, 0): LOST, (0, 1): LOST, (0, 2): slow})
    bench = Bench(timetable, down=Direction(delay=0.25, jitter=1.0))
    for moment in (1.0, 2.0, 3.0):
        bench.train(3, at=moment)
    bench.run_until(20.0)
    ways = [(event["t"], event["attempt"], event["dropped"]) for event in bench.of_kind("downloaded")]
    assert ways == [(1.25, 0, True), (2.25, 1, True), (4.25, 2, False)]
    assert bench.training.begun == [(0, 4)]
    assert bench.deliveries == [(3, 6.75)]


# ---- lost uploads


@pytest.mark.parametrize(
    ("policy", "delivered"),
    [("retry", 4.75), ("next_tick", 6.5)],  # ticks at 4 and 6: attempts at 3.25; 3.75, 4.25 or 4, 6
)
def test_a_lost_upload_is_tried_again(policy: str, delivered: float) -> None:
    bench = Bench(Script(uploads={(0, 0): LOST, (0, 1): LOST}), on_drop=policy)
    bench.train(1, at=1.0)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, delivered)]
    assert [event["attempt"] for event in bench.of_kind("uploaded")] == [0, 1, 2]
    assert [event["dropped"] for event in bench.of_kind("uploaded")] == [True, True, False]
    assert bench.device.beat().drops == 2


def test_an_upload_lost_exactly_at_a_tick_waits_for_the_next() -> None:
    bench = Bench(Script(uploads={(0, 0): LOST}), on_drop="next_tick", up=Direction(delay=0.75))
    bench.train(1, at=1.0)
    bench.run_until(4.0)
    assert (bench.device.state, bench.device.due()) == (State.UPLOADING, 6.0)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, 6.75)]


def test_an_upload_given_up_leaves_a_finished_job_that_is_not_held() -> None:
    bench = Bench(Script(uploads={(0, 0): LOST}), on_drop="give_up")
    bench.train(6, at=1.0)
    bench.run_until(20.0)
    beat = bench.device.beat()
    assert (beat.state, beat.ticket, beat.finished, beat.drops) == ("idle", 0, 6, 1)
    assert bench.delivered == []
    bench.train(7)
    bench.run_until(40.0)
    assert bench.deliveries == [(7, 22.75)]


# ---- suspension


def test_a_suspension_comes_in_mid_job_and_moves_the_rest() -> None:
    bench = Bench(Script(suspensions={0: HANG}))
    bench.train(1, at=1.0)
    bench.run_until(2.25)  # work began at 1.25, two of four steps are done
    assert (bench.device.state, bench.device.due()) == (State.SUSPENDED, 5.25)
    assert bench.device.beat().progress == 0.5
    bench.run_until(20.0)
    assert bench.times == [("downloaded", 1.25), ("suspended", 5.25), ("trained", 6.25), ("uploaded", 6.75)]
    [hang], [trained] = bench.of_kind("suspended"), bench.of_kind("trained")
    assert (hang["ticket"], hang["asked"], hang["obtained"]) == (1, 3.0, 3.0)
    assert (trained["asked"], trained["obtained"], trained["late"]) == (2.0, 2.0, 0.0)


def test_a_suspension_at_the_very_start_holds_the_first_step() -> None:
    bench = Bench(Script(suspensions={0: Suspension(at=0.0, seconds=1.0)}))
    bench.train(1)
    bench.run_until(1.0)
    assert (bench.device.state, bench.device.beat().progress) == (State.SUSPENDED, 0.0)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, 3.75)]


def test_only_the_jobs_of_the_timetable_are_suspended() -> None:
    bench = Bench(Script(suspensions={1: HANG}))
    for ticket, moment in ((1, 0.0), (2, 10.0), (3, 20.0)):
        bench.train(ticket, at=moment)
    bench.run_until(40.0)
    assert [event["ticket"] for event in bench.of_kind("suspended")] == [2]
    assert bench.deliveries == [(1, 2.75), (2, 15.75), (3, 22.75)]


def test_a_train_that_comes_during_a_suspension_waits_for_its_end() -> None:
    bench = Bench(Script(suspensions={0: HANG}))
    bench.train(1, at=1.0)
    bench.train(2, at=3.0)
    beat = bench.device.beat()
    assert (beat.state, beat.ticket, beat.trains) == ("suspended", 2, 2)
    bench.run_until(20.0)
    # awake at 5.25, downloaded at 5.5; 4.25 s after the start, of which three were hung
    assert bench.times[1:4] == [("suspended", 5.25), ("downloaded", 5.5), ("abandoned", 5.5)]
    assert bench.of_kind("abandoned")[0]["seconds"] == 1.25
    assert bench.deliveries == [(2, 8.0)]


def test_the_same_ticket_again_during_a_suspension_changes_nothing() -> None:
    bench = Bench(Script(suspensions={0: HANG}))
    bench.train(1, at=1.0)
    bench.train(1, at=3.0)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, 6.75)]
    assert bench.of_kind("abandoned") == []


def test_a_suspended_device_does_not_wake_early() -> None:
    bench = Bench(Script(suspensions={0: HANG}))
    bench.train(1, at=1.0)
    bench.run_until(5.0)
    assert bench.device.state is State.SUSPENDED
    assert not bench.device.wants_step(5.0)


# ---- restarts


def test_a_restart_lets_the_old_work_go_on_until_the_new_model_is_there() -> None:
    bench = Bench()
    bench.train(1, at=1.0)
    bench.train(2, at=2.125)
    assert (bench.device.state, bench.device.beat().ticket, bench.device.beat().progress) == (State.TRAINING, 2, 0.5)
    bench.run_until(2.3)  # the third step of the old job at 2.25, the new model at 2.375
    assert bench.device.beat().progress == 0.75
    bench.run_until(20.0)
    [abandoned] = bench.of_kind("abandoned")
    assert abandoned == {"kind": "abandoned", "t": 2.375, "device": "rpi-1", "ticket": 1, "seconds": 1.125}
    assert bench.training.closed == [0]
    assert bench.deliveries == [(2, 4.875)]


def test_a_restart_whose_download_is_lost_leaves_the_old_work() -> None:
    bench = Bench(Script(downloads={(1, 0): LOST}))
    bench.train(1, at=1.0)
    bench.train(2, at=2.0)
    bench.run_until(2.5)
    beat = bench.device.beat()
    assert (beat.state, beat.ticket, beat.finished, beat.drops) == ("training", 1, 0, 1)
    bench.run_until(10.0)
    assert bench.deliveries == [(1, 3.75)]
    bench.train(2)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, 3.75), (2, 12.75)]
    assert [event["attempt"] for event in bench.of_kind("downloaded")] == [0, 0, 1]
    assert bench.of_kind("abandoned") == []


def test_a_restart_during_the_upload_throws_the_finished_work_away() -> None:
    bench = Bench(Script(suspensions={0: HANG}))
    bench.train(1, at=1.0)
    bench.train(2, at=6.375)  # trained at 6.25 after 2 s of computing and 3 s of hanging; upload until 6.75
    bench.run_until(20.0)
    [abandoned] = bench.of_kind("abandoned")
    assert (abandoned["t"], abandoned["ticket"], abandoned["seconds"]) == (6.625, 1, 2.0)
    assert bench.deliveries == [(2, 9.125)]


def test_an_upload_that_ends_before_the_new_model_is_there_is_delivered() -> None:
    bench = Bench()
    bench.train(1, at=1.0)
    bench.train(2, at=3.625)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, 3.75), (2, 6.375)]
    assert bench.of_kind("abandoned") == []


def test_a_newer_train_replaces_a_download() -> None:
    bench = Bench()
    bench.train(1, at=1.0)
    bench.train(2, at=1.125)
    bench.run_until(20.0)
    assert [(event["ticket"], event["t"]) for event in bench.of_kind("downloaded")] == [(2, 1.375)]
    assert bench.deliveries == [(2, 3.875)]


def test_an_unpaced_device_computes_without_waiting_and_can_still_be_restarted() -> None:
    bench = Bench(cost=0.0625, seconds_per_sample=None)
    bench.train(1, steps=1000)
    bench.run_until(1.0)
    bench.train(2, steps=4)
    bench.run_until(20.0)
    [abandoned] = bench.of_kind("abandoned")
    assert (abandoned["ticket"], abandoned["t"], abandoned["seconds"]) == (1, 1.25, 1.0)
    [trained] = bench.of_kind("trained")
    assert (trained["ticket"], trained["asked"], trained["obtained"], trained["late"]) == (2, 0.0, 0.25, 0.0)
    assert bench.deliveries == [(2, 2.0)]


# ---- duplicates


@pytest.mark.parametrize("moment", [0.125, 1.0, 2.5])
def test_a_ticket_in_hand_is_not_begun_again(moment: float) -> None:
    bench = Bench()
    bench.train(1)
    bench.train(1, at=moment)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, 2.75)]
    assert bench.device.beat().trains == 2


@pytest.mark.parametrize("policy", ["retry", "give_up"])
def test_a_ticket_that_was_finished_is_not_done_again(policy: str) -> None:
    lost = Script(uploads={(0, 0): LOST})
    bench = Bench(lost, on_drop=policy)
    bench.train(1)
    bench.run_until(10.0)
    delivered = bench.deliveries
    bench.train(1)
    bench.run_until(20.0)
    assert bench.deliveries == delivered
    assert len(bench.of_kind("downloaded")) == 1
