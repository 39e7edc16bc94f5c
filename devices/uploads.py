"""The way of a computed job to the aggregator: attempt after attempt, or given up, as the profile has it."""

from __future__ import annotations

from collections.abc import Callable

from devices.link import next_tick
from devices.route import Route
from devices.work import Work
from testbed.history.trace import Event, Uploaded
from testbed.profile.fleet import DeviceSpec


class Uploads:
    """``note`` is told of each attempt when it ends."""

    def __init__(self, spec: DeviceSpec, ways: Route, note: Callable[[Event], None]) -> None:
        self._spec, self._ways, self._note = spec, ways, note
        self.drops = 0

    def begin(self, work: Work, moment: float) -> None:
        assert work.update is not None
        work.upload = self._ways.up(work.update, work.number, work.attempt, moment, work.granted)

    def end(self, work: Work, now: float) -> bool:
        """An attempt has ended. Whether it was the last: it got through, or is given up."""
        way = work.upload
        assert way is not None
        assert work.update is not None
        if self._ways.is_own(work.train):
            return True
        self._note(
            Uploaded(
                t=now,
                device=self._spec.name,
                ticket=work.train.ticket,
                job=work.number,
                attempt=work.attempt,
                sent=way.started,
                asked=way.asked,
                obtained=way.due - way.started,
                bytes=way.bytes,
                dropped=way.dropped,
                absent=way.absent or None,
                waited=(way.started - work.update.finished or None) if work.granted and not work.attempt else None,
            )
        )
        if not way.dropped:
            return True
        self.drops += 1
        work.attempt += 1
        if self._spec.on_drop == "give_up":
            return True  # the next heartbeat shows a finished job that is not held any more
        if self._spec.on_drop == "next_tick":
            work.upload = None
            tick = self._spec.tick
            assert tick is not None  # a profile with on_drop = next_tick has one
            work.retry_at = next_tick(way.due, tick)
        else:
            self.begin(work, way.due)
        return False
