"""When a device stands still: a suspension in the middle of a job, or an absence at any moment."""

from __future__ import annotations

from devices.route import NEVER
from devices.work import Suspension
from testbed.profile.fleet import DeviceSpec


class Suspensions:
    """The suspension that is under way, and the absences to come."""

    def __init__(self, spec: DeviceSpec, begins: float) -> None:
        self.current: Suspension | None = None
        self.awake_since = begins
        """When the last suspension ended."""
        self._absences = spec.absences(begins)
        self._absence = next(self._absences, NEVER)

    @property
    def next_absence(self) -> float:
        """When the next absence begins; infinity if there is none."""
        return self._absence[0]

    def suspend(self, moment: float, seconds: float) -> None:
        """Begin the suspension that the fault timetable has planned for a job."""
        self.current = Suspension(started=moment, until=moment + seconds, asked=seconds)

    def go_away(self) -> bool:
        """Begin the next absence; return False if a suspension has covered all of it."""
        (gone, back), self._absence = self._absence, next(self._absences, NEVER)
        started = max(gone, self.awake_since)
        if back <= started:
            return False
        self.current = Suspension(started=started, until=back, asked=back - started, away=True)
        return True

    def wake_up(self, moment: float) -> Suspension:
        """End the suspension that is under way, and return it."""
        assert self.current is not None
        ended, self.current, self.awake_since = self.current, None, moment
        return ended

    def stop(self) -> None:
        """Forget the suspension that is under way: the device is dead."""
        self.current = None
