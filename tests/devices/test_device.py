from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from devices.compute.kept_memory import JobTickets
from devices.work import State
from testbed.emulation.faults import PlannedSuspension, TransferFate
from testbed.history.trace import Abandoned, Downloaded, Miss, Trained, Uploaded, Use
from testbed.host.kernel import Usage
from testbed.profile.schema import Direction, Phase
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job
from tests.devices.parts import LOST, Bench, FixedTimetable, kind_of

SUSPENSION = PlannedSuspension(at=0.5, seconds=3.0)


# ---- a job without faults: download 0.25 s, four steps of 0.5 s, upload 0.5 s


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
    assert states == [State.IDLE, State.DOWNLOADING, State.TRAINING, State.TRAINING, State.UPLOADING, State.IDLE]


def test_steps_are_computed_when_the_step_before_is_over() -> None:
    bench = Bench()
    bench.train(1)
    bench.run_until(1.0)  # work began at 0.25: steps at 0.25 and 0.75
    assert bench.device.heartbeat().progress == 0.5
    assert bench.device.due() == 1.25


def test_events_report_the_seconds_asked_and_obtained() -> None:
    bench = Bench(cost=0.625)  # every step takes longer than the 0.5 s it should
    bench.train(1)
    bench.run_until(10.0)
    # steps end at 0.875, 1.5, 2.125, 2.75; the last deadline was 2.25
    assert bench.of_kind("trained") == [
        Trained(
            t=2.75,
            device="rpi-1",
            ticket=1,
            steps=4,
            asked=2.0,
            obtained=2.5,
            checks=4,
            misses=[Miss(1, 0.5, 0.125), Miss(2, 0.5, 0.25), Miss(3, 0.5, 0.375), Miss(4, 0.5, 0.5)],
            use=None,
        )
    ]
    transfer: dict[str, Any] = {"device": "rpi-1", "ticket": 1, "job": 0, "attempt": 0, "bytes": 16, "dropped": False}
    assert bench.of_kind("downloaded") == [Downloaded(t=0.25, sent=0.0, asked=0.25, obtained=0.25, **transfer)]
    assert bench.of_kind("uploaded") == [Uploaded(t=3.25, sent=2.75, asked=0.5, obtained=0.5, **transfer)]


def test_a_job_reports_the_kernel_counters_of_its_process() -> None:
    usages = (Usage(cpu, waited) for cpu, waited in ((5.0, 1.0), (5.25, 1.5), (5.5, 1.5), (5.75, 1.75), (6.0, 2.0)))
    bench = Bench(cost=0.25, meter=lambda: next(usages))
    bench.train(1)
    bench.run_until(10.0)
    assert bench.of_kind("trained")[0].use == Use(cpu=1.0, waited=1.0, stolen=0.0)


def test_a_schedule_slows_the_steps_of_its_phase() -> None:
    bench = Bench(schedule=(Phase(at=1.25, speed=0.5),))
    bench.train(1)  # work begins at 0.25: two steps of half a second, two of a second
    bench.run_until(10.0)
    [trained] = bench.of_kind("trained")
    assert (trained.t, trained.asked, trained.obtained) == (3.25, 3.0, 3.0)
    assert bench.deliveries == [(1, 3.75)]


@pytest.mark.parametrize(("samples", "step"), [(100, 32), (32, 32), (16, 16)])
def test_a_step_is_paced_by_the_samples_in_it(samples: int, step: int) -> None:
    bench = Bench(samples=samples, seconds_per_sample=1 / 400)
    bench.train(1, steps=2)
    bench.run_until(10.0)
    assert bench.of_kind("trained")[0].asked == pytest.approx(2 * step / 400)


def test_each_job_has_the_next_number() -> None:
    bench = Bench()
    bench.train(5, steps=2)
    bench.train(9, steps=3, at=5.0)
    bench.run_until(10.0)
    assert bench.training.begun == [(0, 2), (1, 3)]
    assert [float(update.delta[0]) for _, update in bench.delivered] == [0.0, 1.0]


def test_a_heartbeat_carries_each_event_once() -> None:
    bench = Bench()
    bench.train(4)
    bench.device.advance(0.25)
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.device, heartbeat.state, heartbeat.ticket, heartbeat.finished, heartbeat.trains) == (
        "rpi-1",
        "training",
        4,
        0,
        1,
    )
    assert [kind_of(event) for event in heartbeat.events] == ["downloaded"]
    assert bench.device.heartbeat().events == ()


# ---- lost downloads


def test_a_lost_download_leaves_the_device_idle_and_the_heartbeat_shows_it() -> None:
    bench = Bench(FixedTimetable(downloads={(0, 0): LOST}))
    bench.train(3, at=1.0)
    bench.run_until(5.0)
    assert bench.device.state is State.IDLE
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.ticket, heartbeat.finished, heartbeat.trains, heartbeat.drops) == (0, 0, 1, 1)
    [event] = bench.of_kind("downloaded")
    assert (event.t, event.attempt, event.dropped, event.bytes) == (1.25, 0, True, 16)


def test_the_same_ticket_again_is_the_next_attempt_at_the_same_job() -> None:
    slow = TransferFate(dropped=False, delay_noise=1.0, rate_noise=0.0)
    timetable = FixedTimetable(downloads={(0, 0): LOST, (0, 1): LOST, (0, 2): slow})
    bench = Bench(timetable, down=Direction(delay=0.25, jitter=1.0))
    for moment in (1.0, 2.0, 3.0):
        bench.train(3, at=moment)
    bench.run_until(20.0)
    transfers = [(event.t, event.attempt, event.dropped) for event in bench.of_kind("downloaded")]
    assert transfers == [(1.25, 0, True), (2.25, 1, True), (4.25, 2, False)]
    assert bench.training.begun == [(0, 4)]
    assert bench.deliveries == [(3, 6.75)]


# ---- lost uploads


@pytest.mark.parametrize(
    ("policy", "delivered"),
    [("retry", 4.75), ("next_tick", 6.5)],  # ticks at 4 and 6: attempts at 3.25; 3.75, 4.25 or 4, 6
)
def test_a_lost_upload_is_tried_again(policy: str, delivered: float) -> None:
    bench = Bench(FixedTimetable(uploads={(0, 0): LOST, (0, 1): LOST}), on_drop=policy)
    bench.train(1, at=1.0)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, delivered)]
    assert [event.attempt for event in bench.of_kind("uploaded")] == [0, 1, 2]
    assert [event.dropped for event in bench.of_kind("uploaded")] == [True, True, False]
    assert bench.device.heartbeat().drops == 2


def test_an_upload_lost_exactly_at_a_tick_waits_for_the_next() -> None:
    bench = Bench(FixedTimetable(uploads={(0, 0): LOST}), on_drop="next_tick", up=Direction(delay=0.75))
    bench.train(1, at=1.0)
    bench.run_until(4.0)
    assert (bench.device.state, bench.device.due()) == (State.UPLOADING, 6.0)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, 6.75)]


def test_after_an_upload_is_given_up_the_heartbeat_shows_a_finished_job_and_no_ticket() -> None:
    bench = Bench(FixedTimetable(uploads={(0, 0): LOST}), on_drop="give_up")
    bench.train(6, at=1.0)
    bench.run_until(20.0)
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.state, heartbeat.ticket, heartbeat.finished, heartbeat.drops) == ("idle", 0, 6, 1)
    assert bench.delivered == []
    bench.train(7)
    bench.run_until(40.0)
    assert bench.deliveries == [(7, 22.75)]


# ---- suspension


def test_a_suspension_comes_in_mid_job_and_moves_the_rest() -> None:
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}))
    bench.train(1, at=1.0)
    bench.run_until(2.25)  # work began at 1.25, two of four steps are done
    assert (bench.device.state, bench.device.due()) == (State.SUSPENDED, 5.25)
    assert bench.device.heartbeat().progress == 0.5
    bench.run_until(20.0)
    assert bench.times == [("downloaded", 1.25), ("suspended", 5.25), ("trained", 6.25), ("uploaded", 6.75)]
    [suspension], [trained] = bench.of_kind("suspended"), bench.of_kind("trained")
    assert (suspension.ticket, suspension.asked, suspension.obtained) == (1, 3.0, 3.0)
    assert (trained.asked, trained.obtained, trained.misses) == (2.0, 2.0, [])


def test_a_suspension_at_the_very_start_delays_the_first_step() -> None:
    bench = Bench(FixedTimetable(suspensions={0: PlannedSuspension(at=0.0, seconds=1.0)}))
    bench.train(1)
    bench.run_until(1.0)
    assert (bench.device.state, bench.device.heartbeat().progress) == (State.SUSPENDED, 0.0)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, 3.75)]


def test_only_the_jobs_of_the_timetable_are_suspended() -> None:
    bench = Bench(FixedTimetable(suspensions={1: SUSPENSION}))
    for ticket, moment in ((1, 0.0), (2, 10.0), (3, 20.0)):
        bench.train(ticket, at=moment)
    bench.run_until(40.0)
    assert [event.ticket for event in bench.of_kind("suspended")] == [2]
    assert bench.deliveries == [(1, 2.75), (2, 15.75), (3, 22.75)]


def test_a_train_that_arrives_during_a_suspension_waits_for_its_end() -> None:
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}))
    bench.train(1, at=1.0)
    bench.train(2, at=3.0)
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.state, heartbeat.ticket, heartbeat.trains) == ("suspended", 2, 2)
    bench.run_until(20.0)
    # awake at 5.25, downloaded at 5.5; 4.25 s after the start, three of them suspended
    assert bench.times[1:4] == [("suspended", 5.25), ("downloaded", 5.5), ("abandoned", 5.5)]
    assert bench.of_kind("abandoned")[0].seconds == 1.25
    assert bench.deliveries == [(2, 8.0)]


def test_the_same_ticket_again_during_a_suspension_changes_nothing() -> None:
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}))
    bench.train(1, at=1.0)
    bench.train(1, at=3.0)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, 6.75)]
    assert bench.of_kind("abandoned") == []


def test_a_suspended_device_does_not_wake_early() -> None:
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}))
    bench.train(1, at=1.0)
    bench.run_until(5.0)
    assert bench.device.state is State.SUSPENDED
    assert not bench.device.wants_step(5.0)


# ---- a new model for a busy device


def test_the_old_work_continues_until_the_new_model_is_downloaded() -> None:
    bench = Bench()
    bench.train(1, at=1.0)
    bench.train(2, at=2.125)
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.state, heartbeat.ticket, heartbeat.progress) == ("training", 2, 0.5)
    bench.run_until(2.3)  # the third step of the old job at 2.25, the new model at 2.375
    assert bench.device.heartbeat().progress == 0.75
    bench.run_until(20.0)
    [abandoned] = bench.of_kind("abandoned")
    assert abandoned == Abandoned(
        t=2.375, device="rpi-1", ticket=1, steps=3, seconds=1.125, checks=3, misses=[], use=None
    )
    assert bench.training.closed == [0]
    assert bench.deliveries == [(2, 4.875)]


def test_the_old_work_continues_if_the_download_of_the_new_model_is_lost() -> None:
    bench = Bench(FixedTimetable(downloads={(1, 0): LOST}))
    bench.train(1, at=1.0)
    bench.train(2, at=2.0)
    bench.run_until(2.5)
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.state, heartbeat.ticket, heartbeat.finished, heartbeat.drops) == ("training", 1, 0, 1)
    bench.run_until(10.0)
    assert bench.deliveries == [(1, 3.75)]
    bench.train(2)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, 3.75), (2, 12.75)]
    assert [event.attempt for event in bench.of_kind("downloaded")] == [0, 0, 1]
    assert bench.of_kind("abandoned") == []


def test_a_new_model_during_the_upload_replaces_the_finished_work() -> None:
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}))
    bench.train(1, at=1.0)
    bench.train(2, at=6.375)  # trained at 6.25 after 2 s of computing and 3 s of suspension; upload until 6.75
    bench.run_until(20.0)
    [abandoned] = bench.of_kind("abandoned")
    assert (abandoned.t, abandoned.ticket, abandoned.seconds) == (6.625, 1, 2.0)
    assert bench.deliveries == [(2, 9.125)]


def test_an_upload_that_ends_before_the_new_model_is_downloaded_is_delivered() -> None:
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
    assert [(event.ticket, event.t) for event in bench.of_kind("downloaded")] == [(2, 1.375)]
    assert bench.deliveries == [(2, 3.875)]


def test_the_work_of_an_unpaced_device_can_be_replaced_too() -> None:
    bench = Bench(cost=0.0625, throttle="none", seconds_per_sample=None)
    bench.train(1, steps=1000)
    bench.run_until(1.0)
    bench.train(2, steps=4)
    bench.run_until(20.0)
    [abandoned] = bench.of_kind("abandoned")
    assert (abandoned.ticket, abandoned.t, abandoned.seconds) == (1, 1.25, 1.0)
    [trained] = bench.of_kind("trained")
    assert (trained.ticket, trained.asked, trained.obtained, trained.checks) == (2, 0.0, 0.25, 0)
    assert bench.deliveries == [(2, 2.0)]


# ---- duplicates


@pytest.mark.parametrize("moment", [0.125, 1.0, 2.5])
def test_a_ticket_that_is_under_way_is_not_begun_again(moment: float) -> None:
    bench = Bench()
    bench.train(1)
    bench.train(1, at=moment)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, 2.75)]
    assert bench.device.heartbeat().trains == 2


@pytest.mark.parametrize("policy", ["retry", "give_up"])
def test_a_ticket_that_was_finished_is_not_done_again(policy: str) -> None:
    lost = FixedTimetable(uploads={(0, 0): LOST})
    bench = Bench(lost, on_drop=policy)
    bench.train(1)
    bench.run_until(10.0)
    delivered = bench.deliveries
    bench.train(1)
    bench.run_until(20.0)
    assert bench.deliveries == delivered
    assert len(bench.of_kind("downloaded")) == 1


# ---- a process that wakes late: due moments count from the moment before them that was due


LATE = 0.1875
"""Less than a step, so that there is slack."""


def test_a_device_whose_process_wakes_late_keeps_the_moments_of_its_schedule() -> None:
    bench = Bench(late=LATE)
    bench.train(1, at=1.0)
    bench.run_until(10.0)
    [(_, update)] = bench.delivered
    assert (update.started, update.finished, update.due) == (1.25, 3.25, 3.75)
    [down], [trained], [up] = (bench.of_kind(kind) for kind in ("downloaded", "trained", "uploaded"))
    assert (down.t, down.obtained) == (1.25 + LATE, 0.25)
    assert (trained.obtained, trained.misses) == (2.0, [])
    assert (up.sent, up.obtained, up.t) == (3.25, 0.5, 3.75 + LATE)


def test_lateness_does_not_add_up_over_jobs() -> None:
    dues = []
    for late in (0.0, LATE):
        bench = Bench(FixedTimetable(uploads={(1, 0): LOST}, suspensions={2: SUSPENSION}), late=late)
        for ticket in range(1, 6):
            # the aggregator answers an update at the moment at which it is due
            bench.train(ticket, sent=bench.delivered[-1][1].due if bench.delivered else 0.0)
            while len(bench.delivered) < ticket:
                bench.run_until(bench.device.due())
        dues.append(bench.dues)
    assert dues[0] == dues[1] == [(1, 2.75), (2, 6.0), (3, 11.75), (4, 14.5), (5, 17.25)]


def test_only_a_step_that_was_computed_too_late_moves_what_comes_after_it() -> None:
    bench = Bench(cost=0.375, late=0.25)  # the last step begins a quarter of a second late, and ends an eighth too late
    bench.train(1)
    bench.run_until(10.0)
    [trained] = bench.of_kind("trained")
    assert (trained.asked, trained.obtained, trained.misses[-1]) == (2.0, 2.125, Miss(4, 0.5, 0.125))
    assert bench.dues == [(1, 2.875)]


def test_a_download_begins_when_the_model_was_sent_and_not_when_it_was_received() -> None:
    bench = Bench()
    bench.train(1, at=1.125, sent=1.0)
    bench.run_until(10.0)
    assert bench.dues == [(1, 3.75)]
    assert (bench.of_kind("downloaded")[0].sent, bench.of_kind("downloaded")[0].obtained) == (1.0, 0.25)


def test_a_model_that_is_received_too_late_is_reported_late_and_its_work_counts_from_its_due_moment() -> None:
    bench = Bench()
    bench.train(1, at=1.5, sent=1.0)
    bench.run_until(10.0)
    assert (bench.of_kind("downloaded")[0].asked, bench.of_kind("downloaded")[0].obtained) == (0.25, 0.5)
    [(_, update)] = bench.delivered
    assert (update.started, update.due) == (1.25, 3.75)


def test_a_retry_counts_from_when_the_lost_upload_was_due() -> None:
    bench = Bench(FixedTimetable(uploads={(0, 0): LOST, (0, 1): LOST}), late=LATE)
    bench.train(1, at=1.0)
    bench.run_until(10.0)
    assert bench.dues == [(1, 4.75)]
    assert [event.sent for event in bench.of_kind("uploaded")] == [3.25, 3.75, 4.25]


def test_a_device_that_wakes_late_from_a_suspension_continues_as_if_it_had_woken_in_time() -> None:
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}), late=LATE)
    bench.train(1, at=1.0)
    bench.run_until(10.0)
    assert bench.dues == [(1, 6.75)]
    assert bench.of_kind("suspended")[0].obtained == 3.0 + LATE


def test_the_download_of_a_model_that_waited_for_the_end_of_a_suspension_begins_at_that_end() -> None:
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}), late=LATE)
    bench.train(1, at=1.0)
    bench.train(2, at=3.0)
    bench.run_until(10.0)
    assert [event.sent for event in bench.of_kind("downloaded")] == [1.0, 5.25]
    assert bench.dues == [(2, 8.0)]


# ---- an update is sent a little before it is due


LEAD = 0.125


def test_an_update_is_sent_before_it_is_due_and_names_that_moment() -> None:
    bench = Bench(lead=LEAD)
    bench.train(1, at=1.0)
    bench.run_until(10.0)
    [(moment, update)] = bench.delivered
    assert (moment, update.due, update.finished) == (3.75 - LEAD, 3.75, 3.25)
    assert bench.of_kind("uploaded")[0].t == 3.75


def test_an_update_over_a_link_shorter_than_the_lead_is_sent_before_its_training_is_due_to_end() -> None:
    bench = Bench(lead=LEAD, up=Direction(delay=0.0625))
    bench.train(1, at=1.0)
    bench.run_until(10.0)
    [(moment, update)] = bench.delivered
    assert (moment, update.finished, update.due) == (3.1875, 3.25, 3.3125)
    assert bench.of_kind("trained")[0].t == 3.25


def test_a_device_keeps_its_ticket_until_the_update_is_due() -> None:
    bench = Bench(lead=LEAD)
    bench.train(5, at=1.0)
    bench.run_until(3.7)
    assert bench.deliveries == [(5, 3.625)]
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.state, heartbeat.ticket, heartbeat.finished) == ("uploading", 5, 5)  # the upload is not given up
    bench.run_until(3.75)
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.state, heartbeat.ticket, heartbeat.finished) == ("idle", 0, 5)


def test_an_upload_that_will_be_lost_is_not_sent() -> None:
    bench = Bench(FixedTimetable(uploads={(0, 0): LOST}), lead=LEAD)
    bench.train(1, at=1.0)
    bench.run_until(4.0)
    assert bench.delivered == []
    bench.run_until(10.0)
    assert bench.deliveries == [(1, 4.25 - LEAD)]
    assert bench.dues == [(1, 4.25)]


def test_an_update_that_was_trained_too_late_is_due_later() -> None:
    bench = Bench(lead=LEAD, cost=0.625)
    bench.train(1)
    bench.run_until(10.0)
    assert bench.deliveries == [(1, 3.25 - LEAD)]
    assert bench.dues == [(1, 3.25)]


# ---- computing ahead of time


def test_steps_computed_ahead_end_when_they_should() -> None:
    bench = Bench(ahead=0.75, cost=0.0625)
    bench.train(1)
    bench.run_until(0.75)  # the first at 0.25, the second a third of the way before its time, 0.75 − (0.75 − 0.25)/3
    assert bench.device.heartbeat().progress == 0.5
    bench.run_until(10.0)
    [trained] = bench.of_kind("trained")
    assert (trained.t, trained.obtained, trained.misses) == (2.25, 2.0, [])
    assert bench.dues == [(1, 2.75)]


def test_a_step_that_takes_longer_than_its_time_is_absorbed_by_computing_ahead() -> None:
    def misses(ahead: float) -> int:
        steps = iter([0.1, 0.1, 0.7, 0.1])
        bench = Bench(ahead=ahead)
        bench.train(1)
        bench.device.advance(0.25)
        now = 0.25
        for cost in steps:
            now = max(now, bench.device.due()) + cost
            bench.device.step()
            bench.device.stepped(now)
        bench.run_until(10.0)
        return len(bench.of_kind("trained")[0].misses)

    assert (misses(0.0), misses(0.5)) == (1, 0)


def test_computing_ahead_stops_at_a_suspension() -> None:
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}), ahead=10.0)
    bench.train(1, at=1.0)
    bench.run_until(1.6)
    assert (bench.device.state, bench.device.heartbeat().progress, bench.device.due()) == (State.TRAINING, 0.5, 2.25)
    bench.run_until(5.0)  # suspended from 2.25 to 5.25, as if nothing had been computed ahead
    assert (bench.device.state, bench.device.heartbeat().progress) == (State.SUSPENDED, 0.5)
    bench.run_until(10.0)
    assert bench.of_kind("suspended")[0].obtained == 3.0
    assert bench.dues == [(1, 6.75)]


# ---- missed deadlines


def test_a_missed_deadline_is_reported_with_its_check_the_seconds_asked_and_the_lateness() -> None:
    bench = Bench()
    bench.train(1)
    bench.device.advance(0.25)
    for moment in (0.5, 1.375, 1.5, 2.0):  # deadlines are 0.75, 1.25, 1.75, 2.25
        bench.device.step()
        bench.device.stepped(moment)
    bench.run_until(10.0)
    [trained] = bench.of_kind("trained")
    assert (trained.checks, trained.misses, trained.obtained) == (4, [Miss(2, 0.5, 0.125)], 2.0)


def test_short_steps_are_checked_together() -> None:
    bench = Bench(grain=1.0)
    bench.train(1)
    bench.run_until(10.0)
    assert bench.of_kind("trained")[0].checks == 2


# ---- computing in a worker process


class Elsewhere:
    """Training in a worker process. Records the calls of the device."""

    late_losses = 0.0

    def __init__(self, job: Job, base: Vector, number: int) -> None:
        self.calls: list[str] = []
        self._base = base

    def step(self) -> float:
        raise AssertionError("the worker computes its steps")

    def result(self) -> Vector:
        return np.full_like(self._base, 3.0)

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")

    def close(self) -> None:
        self.calls.append("close")


class Remote:
    """Begins such trainings, and records them."""

    def __init__(self) -> None:
        self.begun: list[Elsewhere] = []

    def __call__(self, job: Job, base: Vector, number: int, tickets: JobTickets) -> Elsewhere:
        self.begun.append(Elsewhere(job, base, number))
        return self.begun[-1]


@pytest.mark.parametrize("throttle", ["cgroup", "signal"])
def test_a_device_under_a_quota_waits_for_its_steps_and_computes_none_itself(throttle: str) -> None:
    bench = Bench(throttle=throttle, trainer=Remote())
    bench.train(1)
    bench.run_until(0.5)
    assert bench.device.state is State.TRAINING
    assert not bench.device.wants_step(100.0)
    assert bench.device.due() == float("inf")
    for number, moment in enumerate((0.875, 1.5, 1.75, 3.0), 1):
        bench.run_until(moment)
        bench.device.progressed(float(number), moment)
    bench.run_until(10.0)
    [trained] = bench.of_kind("trained")
    assert (trained.asked, trained.obtained, trained.checks) == (2.0, 2.75, 0)
    [(_, update)] = bench.delivered
    assert (update.due, update.loss, float(update.delta[0])) == (3.5, 2.5, 3.0)


def test_a_worker_is_paused_during_a_suspension_and_its_job_is_closed_when_it_is_replaced() -> None:
    remote = Remote()
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}), throttle="cgroup", trainer=remote)
    bench.train(1)
    for moment in (0.75, 1.25):
        bench.run_until(moment)
        bench.device.progressed(1.0, moment)
    bench.run_until(2.0)
    assert (bench.device.state, remote.begun[0].calls) == (State.SUSPENDED, ["pause"])
    bench.run_until(4.5)
    assert remote.begun[0].calls == ["pause", "resume"]
    bench.train(2)
    bench.run_until(5.0)
    assert remote.begun[0].calls == ["pause", "resume", "close"]
    assert len(remote.begun) == 2


# ---- stopping the process by a signal


def test_only_a_device_that_is_suspended_by_signal_is_frozen() -> None:
    for how, until in (("hold", None), ("signal", 5.25)):
        bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}), suspend_by=how)
        bench.train(1, at=1.0)
        assert bench.device.frozen_until is None
        bench.run_until(3.0)
        assert (bench.device.state, bench.device.frozen_until) == (State.SUSPENDED, until)
        bench.run_until(10.0)
        assert bench.device.frozen_until is None


# ---- the end of the run


def test_a_device_stopped_in_its_training_reports_its_steps_and_seconds() -> None:
    bench = Bench()
    bench.train(1)
    bench.run_until(1.5)
    bench.device.stop(1.5)
    [event] = bench.device.take_events()
    assert (kind_of(event), event.steps, event.seconds) == ("abandoned", 3, 1.25)
    assert bench.training.closed == [0]


@pytest.mark.parametrize("how", ["hold", "signal"])
def test_a_device_stopped_in_a_suspension_reports_how_long_it_lasted(how: str) -> None:
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}), suspend_by=how)
    bench.train(1, at=1.0)
    bench.train(2, at=3.0)
    bench.run_until(4.0)
    bench.device.stop(4.0)
    suspension, abandoned = bench.device.take_events()
    assert (kind_of(suspension), suspension.asked, suspension.obtained) == ("suspended", 3.0, 1.75)
    assert (kind_of(abandoned), abandoned.ticket, abandoned.seconds) == ("abandoned", 1, 1.0)


def test_a_device_stopped_in_its_upload_has_nothing_left_to_report() -> None:
    bench = Bench()
    bench.train(1)
    bench.run_until(2.5)
    bench.device.stop(2.5)
    assert bench.device.take_events() == ()
    assert [kind for kind, _ in bench.times] == ["downloaded", "trained"]


def test_a_device_that_is_stopped_after_its_upload_was_due_reports_that_it_arrived() -> None:
    bench = Bench()
    bench.train(1)
    bench.run_until(2.5)
    bench.device.stop(3.0)  # it was due at 2.75, and the aggregator has applied it
    [event] = bench.device.take_events()
    assert (kind_of(event), event.ticket, event.dropped) == ("uploaded", 1, False)


# ---- things that are due together


def test_a_model_that_is_downloaded_in_a_suspension_is_trained_from_its_end_on() -> None:
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}))
    bench.train(1, at=1.0)
    bench.train(2, at=2.125)  # downloaded at 2.375; the device is suspended from 2.25 to 5.25
    bench.run_until(10.0)
    assert bench.of_kind("downloaded")[1].obtained == 0.25  # its link was not slower for that
    assert bench.of_kind("trained")[0].misses == []
    assert bench.dues == [(2, 7.75)]


@pytest.mark.parametrize("late", [0.0, LATE])
def test_an_upload_that_is_due_before_a_new_model_ends_first_however_late_the_process_wakes(late: float) -> None:
    bench = Bench(late=late)
    bench.train(1, at=1.0)
    bench.train(2, at=3.625)  # downloaded at 3.875, the upload ends at 3.75
    bench.run_until(10.0)
    assert bench.dues == [(1, 3.75), (2, 6.375)]
    assert bench.of_kind("abandoned") == []


@pytest.mark.parametrize("late", [0.0, LATE])
def test_a_suspension_that_is_due_before_a_new_model_begins_first_however_late_the_process_wakes(late: float) -> None:
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}), late=late)
    bench.train(1, at=1.0)
    bench.train(2, at=1.9375, sent=2.0625)  # downloaded at 2.3125; suspended from 2.25 on
    bench.run_until(10.0)
    assert [event.ticket for event in bench.of_kind("suspended")] == [1]
    assert bench.dues == [(2, 7.75)]


def test_the_computing_of_a_job_that_is_replaced_in_its_upload_is_reported_once() -> None:
    usages = (Usage(cpu, 0.0) for cpu in range(100))
    bench = Bench(cost=0.625, meter=lambda: next(usages))
    bench.train(1)
    bench.train(2, at=2.875)  # uploading from 2.75 to 3.25
    bench.run_until(10.0)
    [first, _], [abandoned] = bench.of_kind("trained"), bench.of_kind("abandoned")
    assert (first.ticket, first.checks, len(first.misses), first.use.cpu) == (1, 4, 4, 4.0)
    assert (abandoned.ticket, abandoned.checks, abandoned.misses, abandoned.use) == (1, 0, [], None)
