"""The uplink and the downlink of a device, with their faults: the fault timetable, the script and absences."""

from __future__ import annotations

import math
from dataclasses import replace

from devices.link import Transfer, transfer
from testbed.emulation.faults import Timetable, scripted
from testbed.profile.fleet import DeviceSpec
from testbed.profile.script import phases
from testbed.wire.messages import Grant, Train, Update
from testbed.wire.ticket_ranges import range_of

NEVER = (math.inf, math.inf)
"""An absence."""


class Route:
    """Computes each transfer over the links of one device when it begins."""

    def __init__(self, spec: DeviceSpec, timetable: Timetable) -> None:
        self._spec, self._timetable = spec, timetable
        self._rates = phases(spec.script, "rate")
        self.own_range: int | None = None
        """The ticket range of the cluster head on this device: its tickets go over no link. None: it is no head."""
        self.own_ticket = 0
        """The ticket of a former head that this device, now a head itself, works on; 0: there is none."""

    def is_own(self, message: Train | Update) -> bool:
        """Return whether the ticket comes from the cluster head on this device, or its update goes to that head."""
        return range_of(message.ticket) == self.own_range or message.ticket == self.own_ticket

    def present_from(self, moment: float) -> float:
        """Return ``moment``, or the end of the absence in which it falls: an absent device receives nothing."""
        gone, back = next(self._spec.absences(moment), NEVER)
        return back if gone <= moment else moment

    def down(self, train: Train, number: int, attempt: int, moment: float) -> Transfer:
        """Begin to download the model of job ``number``."""
        if self.is_own(train):
            return _at_once(moment)
        fate = scripted(self._timetable.download(number, attempt), self._spec.script, moment)
        return transfer(self._spec.down, train.model.nbytes, fate, moment, self._spec.absences, self._rates)

    def up(self, update: Update, number: int, attempt: int, moment: float, granted: Grant | None = None) -> Transfer:
        """Begin to upload the update of job ``number``, at the granted rate if there is one."""
        if self.is_own(update):
            return _at_once(moment)
        fate = scripted(self._timetable.upload(number, attempt), self._spec.script, moment)
        link = self._spec.up
        if granted is not None:  # the recorded seconds come from the rate that was granted in the recorded run
            link = replace(link, mbit=granted.rate / 1e6, spread=0.0, trace=None)
            fate = replace(fate, seconds=None)
        return transfer(link, update.nbytes, fate, moment, self._spec.absences, self._rates)


def _at_once(moment: float) -> Transfer:
    """Return a transfer from a head to itself, or back: it takes no time."""
    return Transfer(started=moment, due=moment, asked=0.0, bytes=0, dropped=False)
