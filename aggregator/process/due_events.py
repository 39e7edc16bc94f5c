"""What falls due in a run: updates and requests that have been received early, and the wake of the strategy."""

from __future__ import annotations

import math

from aggregator.engine.arrivals import Arrivals
from aggregator.engine.engine import Engine
from aggregator.process.ending import Ending
from aggregator.process.load import LoadMeter
from aggregator.process.recorded_order import RecordedOrder
from testbed.common.clock import WallClock
from testbed.wire.messages import Ask, Update


class DueEvents:
    """Passes what is due to the engine, in the order of the due moments, and checks after each whether the run ends."""

    def __init__(self, engine: Engine, arrivals: Arrivals | RecordedOrder, ending: Ending) -> None:
        self._engine, self._arrivals, self._ending = engine, arrivals, ending

    @property
    def next_due(self) -> float:
        """Moment of the next update or of the wake, unless the wake has to wait for an update."""
        wake_at = self._wake_at
        return min(self._arrivals.next_due, wake_at if self._arrivals.allows_wake(wake_at) else math.inf)

    @property
    def _wake_at(self) -> float:
        return math.inf if self._engine.wake_at is None else self._engine.wake_at

    def counts_from(self, now: float) -> float:
        """Return the moment from which a message that is received now counts: see ``RecordedOrder.until``."""
        return now if self._ending.reason is not None else self._arrivals.until(now)

    def catch_up(self, clock: WallClock, load: LoadMeter) -> None:
        """Handle everything that is due by now, until the run ends."""
        self._check_ending()
        while self._ending.reason is None and self._handle_next(clock, load):
            self._check_ending()

    def _check_ending(self) -> None:
        self._ending.check_version(self._engine.version)
        self._ending.check_jobs(self._engine.jobs_of)
        self._ending.check_recording(self._arrivals, self._engine)

    def _handle_next(self, clock: WallClock, load: LoadMeter) -> bool:
        """Handle the first thing that is due by now: an update, or the wake after the updates of its moment.

        Return whether there was one. (A strategy with ticks makes its tick before it uses an update of the same
        moment: its intervals are half-open.)
        """
        engine, wake_at, now = self._engine, self._wake_at, clock.now()
        arrival = self._arrivals.pop(now, wake_at)
        if arrival is not None:
            self._handle(*arrival, clock, load)
        elif wake_at <= now and self._arrivals.allows_wake(wake_at):
            began = clock.now()
            engine.wake(max(wake_at, engine.now))
            load.served(clock.host_seconds(clock.now() - began), updates=0)
            # a strategy that always asks for a wake at the same moment must not keep the run from ending
            self._ending.check_time(now)
        else:
            return False
        return True

    def _handle(
        self, update: Update | Ask, received: float, counts_from: float, clock: WallClock, load: LoadMeter
    ) -> None:
        """Pass an update to the engine as of the moment at which it was due.

        The time that earlier updates took here is hidden behind the delay of the answer, if that is longer.
        """
        handled, moment = clock.now(), max(counts_from, self._engine.now)
        if isinstance(update, Ask):
            self._engine.ask(update, moment, received=received, handled=handled)
        else:
            self._engine.update(update, moment, received=received, handled=handled)
        load.served(clock.host_seconds(clock.now() - handled), updates=isinstance(update, Update))
