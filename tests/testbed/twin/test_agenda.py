"""The agenda of a fleet: the earliest device first, and at one moment in fleet order."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from testbed.twin.agenda import Agenda


def test_a_device_acts_when_it_was_planned_last() -> None:
    agenda = Agenda(3)
    for device, moment in ((2, 1.0), (0, 3.0), (1, 1.0), (0, 1.0), (2, math.inf)):
        agenda.plan(device, moment)
    assert agenda.next == 1.0
    assert [agenda.take(0.5), agenda.take(1.0), agenda.take(1.0), agenda.take(9.0)] == [None, 0, 1, None]
    assert agenda.next == math.inf


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from((0.0, 1.0, 2.0, 3.0, math.inf)))))
def test_devices_act_in_the_order_of_their_moments_and_then_of_the_fleet(plans: list[tuple[int, float]]) -> None:
    agenda, planned = Agenda(5), dict.fromkeys(range(5), math.inf)
    for device, moment in plans:
        agenda.plan(device, moment)
        planned[device] = moment
    taken = []
    while (found := agenda.take(9.0)) is not None:
        taken.append(found)
    assert taken == sorted(
        (each for each in planned if planned[each] < math.inf), key=lambda each: (planned[each], each)
    )
