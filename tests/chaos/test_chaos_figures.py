"""How ``tests.chaos`` computes its figures, with invented histories."""

from __future__ import annotations

import psutil
import pytest

from testbed.history import trace
from tests.chaos.adversary import DoneAttack
from tests.chaos.meter import growth
from tests.chaos.notice import PresenceTimes
from tests.chaos.plan import Attack

ORIGIN = 1000.0


def joined(t: float) -> trace.Joined:
    return trace.Joined(t=t, device="a", pid=1, cores=[0], samples=1)


def left(t: float) -> trace.Left:
    return trace.Left(t=t, device="a", reason="silent")


def presence(*events: trace.Event, dilation: float = 1.0) -> PresenceTimes:
    header = trace.Header(
        t=0.0,
        schema=trace.SCHEMA,
        name="n",
        strategy="s",
        seed=1,
        dilation=dilation,
        demand=0.1,
        pressure=None,
        started="",
        host="",
    )
    return PresenceTimes([header, *events, trace.Stopped(t=30.0, reason="over", version=1, in_flight=0)], ORIGIN)


def done(do: str, at: float, thawed: float | None = None) -> DoneAttack:
    moment = None if thawed is None else ORIGIN + thawed
    return DoneAttack(
        attack=Attack(at=at, do=do, device="a"), moment=ORIGIN + at, process=psutil.Process(), thawed=moment
    )


def test_a_device_is_missed_from_the_attack_on_in_host_seconds() -> None:
    found = presence(joined(0.0), left(1.0), joined(2.0), left(5.0), dilation=2.0)
    assert found.missed([done("kill", 9.5)], 3.0).seconds == pytest.approx([0.5])
    assert found.missed([done("kill", 1.5), done("kill", 9.0)], 3.0).seconds == pytest.approx([0.5, 1.0])


def test_an_absent_device_is_not_counted() -> None:
    found = presence(joined(0.0), left(1.0), joined(9.0), left(12.0))
    noticed = found.missed([done("freeze", 5.0)], 3.0)
    assert (list(noticed.seconds), noticed.never, noticed.cut_short) == ([], 0, 0)
    assert not found.was_there(done("freeze", 5.0))


@pytest.mark.parametrize(("at", "never"), [(20.0, 1), (28.0, 0)])
def test_a_device_that_is_never_missed_counts_unless_the_run_was_over(at: float, never: int) -> None:
    noticed = presence(joined(0.0)).missed([done("kill", at)], 3.0)
    assert (noticed.never, noticed.cut_short) == (never, 1 - never)
    assert noticed.within(3.0) == (not never)


def test_the_return_of_a_device_is_measured_from_its_thaw_if_it_had_left() -> None:
    found = presence(joined(0.0), left(4.0), joined(6.5))
    assert found.back([done("freeze", 2.0, 6.0)], 1.0).seconds == pytest.approx([0.5])
    assert found.back([done("freeze", 2.0, 3.0)], 1.0).seconds == []
    assert found.left_meanwhile(done("freeze", 2.0, 6.0))
    assert not found.left_meanwhile(done("freeze", 2.0, 3.0))


def test_growth_is_a_line_through_all_samples_but_the_first() -> None:
    places = [float(place) for place in range(101)]
    found = growth(places, [1000.0 if place < 10 else 50_000.0 + 7.0 * place for place in places])
    assert found is not None
    assert found.slope == pytest.approx(7.0)
    assert found.total == pytest.approx(7.0 * 90)
    assert growth(places[:4], places[:4]) is None
    assert growth([], []) is None
