"""Both ways over a device's link, with what is to befall them: the timetable of faults, the script, absences."""

from __future__ import annotations

import math
from dataclasses import replace

from devices.link import Transfer, transfer
from testbed.emulation.faults import Timetable, scripted
from testbed.profile.fleet import DeviceSpec
from testbed.profile.script import phases
from testbed.wire.messages import Grant, Train, Update, range_of

NEVER = (math.inf, math.inf)
"""An absence."""


class Route:
    def __init__(self, spec: DeviceSpec, timetable: Timetable) -> None:
        self._spec, self._timetable = spec, timetable
        self._rates = phases(spec.script, "rate")
        self.own_range: int | None = None
        """Of tickets that come from a cluster head which is this device: they go over no link."""

    def is_own(self, message: Train | Update) -> bool:
        return range_of(message.ticket) == self.own_range

    def there(self, moment: float) -> float:
        """The moment, or when the device is back: while it is away, nobody is there to receive anything."""
        gone, back = next(self._spec.absences(moment), NEVER)
        return back if gone <= moment else moment

    def down(self, train: Train, number: int, attempt: int, moment: float) -> Transfer:
        """A model for job ``number`` sets out."""
        if self.is_own(train):
            return _at_once(moment)
        fate = scripted(self._timetable.download(number, attempt), self._spec.script, moment)
        return transfer(self._spec.down, train.model.nbytes, fate, moment, self._spec.absences, self._rates)

    def up(self, update: Update, number: int, attempt: int, moment: float, granted: Grant | None = None) -> Transfer:
        """What was made of a model sets out; at the rate that was granted, if one was needed."""
        if self.is_own(update):
            return _at_once(moment)
        fate = scripted(self._timetable.upload(number, attempt), self._spec.script, moment)
        link = self._spec.up
        if granted is not None:  # what a recorded upload took was the rate that it was granted then
            link = replace(link, mbit=granted.rate / 1e6, spread=0.0, trace=None)
            fate = replace(fate, seconds=None)
        return transfer(link, update.delta.nbytes, fate, moment, self._spec.absences, self._rates)


def _at_once(moment: float) -> Transfer:
    """From a head to itself, or back."""
    return Transfer(started=moment, due=moment, asked=0.0, bytes=0, dropped=False)
