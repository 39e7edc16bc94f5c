"""What falls due in a run: updates and requests that have been received early, and the wake of the strategy."""

from __future__ import annotations

import math

from aggregator.course.ending import Ending
from aggregator.course.load import LoadMeter
from aggregator.course.recorded_order import RecordedOrder
from aggregator.engine.arrivals import Arrivals
from aggregator.engine.engine import Engine
from testbed.common.clock import RunClock
from testbed.wire.messages import Ask, Update


class DueEvents:
    """Passes what is due to the engine, in the order of the due moments, and checks after each whether the run ends."""

    def __init__(self, engine: Engine, arrivals: Arrivals | RecordedOrder, ending: Ending) -> None:
        self._engine, self._arrivals, self._ending = engine, arrivals, ending
        self._progress_ends = ending.depends_on_progress or isinstance(arrivals, RecordedOrder)
        """Whether versions, jobs or recorded arrivals can end the run. They are checked three times per update."""

    @property
    def next_due(self) -> float:
        """Moment of the next update or of the wake, unless the wake has to wait for an update."""
        due, wake_at = self._arrivals.next_due, self._engine.wake_at
        if wake_at is None or wake_at >= due or not self._arrivals.allows_wake(wake_at):
            return due
        return wake_at

    def counts_from(self, now: float) -> float:
        """Return the moment from which a message that is received now counts: see ``RecordedOrder.until``."""
        return now if self._ending.reason is not None else self._arrivals.until(now)

    def catch_up(self, now: float, clock: RunClock, load: LoadMeter) -> float:
        """Handle everything that is due by ``now`` or falls due meanwhile, until the run ends. Return the moment then.

        An update comes first, and the wake after the updates of its moment. (A strategy with ticks makes its tick
        before it uses an update of the same moment: its intervals are half-open.)
        """
        engine, arrivals, ending = self._engine, self._arrivals, self._ending
        self._check_ending()
        while ending.reason is None:
            wake_at = math.inf if engine.wake_at is None else engine.wake_at
            arrival = arrivals.pop(now, wake_at)
            if arrival is None and (wake_at > now or not arrivals.allows_wake(wake_at)):
                break
            handled = clock.now()
            if arrival is not None:
                self._handle(*arrival, handled)
            else:
                engine.wake(max(wake_at, engine.now))
                # a strategy that always asks for a wake at the same moment must not keep the run from ending
                ending.check_time(now)
            now = clock.now()
            load.served(clock.host_seconds(now - handled), arrival is not None and type(arrival[0]) is Update)
            self._check_ending()
        return now

    def wake_at_once(self, now: float, clock: RunClock) -> None:
        """Wake the strategy as often as it has asked for by ``now``, unless the run ends.

        Everything else that is due by then has been handled: see :meth:`catch_up`.
        """
        engine = self._engine
        self._ending.check_version(engine.version)
        while self._ending.reason is None and engine.wake_at is not None and engine.wake_at <= now:
            if not self._arrivals.allows_wake(engine.wake_at):
                return
            engine.wake(max(engine.wake_at, engine.now))
            self._ending.check_time(clock.now())
            self._ending.check_version(engine.version)

    def _check_ending(self) -> None:
        if self._progress_ends:
            self._ending.check_version(self._engine.version)
            self._ending.check_jobs(self._engine.jobs_of)
            self._ending.check_recording(self._arrivals, self._engine)

    def _handle(self, update: Update | Ask, received: float, counts_from: float, handled: float) -> None:
        """Pass an update to the engine as of the moment at which it was due.

        The time that earlier updates took here is hidden behind the delay of the answer, if that is longer.
        """
        moment = max(counts_from, self._engine.now)
        if type(update) is Update:
            self._engine.update(update, moment, received=received, handled=handled)
        elif isinstance(update, Ask):
            self._engine.ask(update, moment, received=received, handled=handled)
