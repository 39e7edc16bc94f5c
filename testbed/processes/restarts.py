"""When processes are killed and restarted. Decisions only: no process, no clock.

The script schedules kills and rejoins. After an unscripted death, the policy ``presence.restart`` decides; a scripted
kill overrides it.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Container, Iterable

from testbed.profile.schema import Experiment
from testbed.profile.script import ScheduledAction

FIRST_WAIT, LONGEST_WAIT = 1.0, 32.0
"""Host seconds from a death to the restart; they double with each further death in a row."""
STEADY_SECONDS = 60.0
"""Host seconds after which a restarted device counts as recovered."""
MOST_EVALUATORS = 5
"""Deaths of evaluators without a score in between; after so many, no further one is forked."""


def wait(deaths_before: int) -> float:
    """Host seconds from a death to the restart."""
    return float(min(FIRST_WAIT * 2 ** min(deaths_before, 16), LONGEST_WAIT))


class Restarts:
    """Restarts of devices, by the policy ``presence.restart``."""

    def __init__(self, policy: int | str) -> None:
        self._most = math.inf if policy == "always" else 0 if policy == "never" else int(policy)
        self._done: Counter[str] = Counter()
        self._in_a_row: Counter[str] = Counter()
        self._since: dict[str, float] = {}

    def began(self, device: str, now: float) -> None:
        """Note that the device is alive since the host second ``now``."""
        self._since[device] = now

    def after_death(self, device: str, now: float) -> float | None:
        """Host seconds until the restart; None if the device stays dead."""
        if self._done[device] >= self._most:
            return None
        if now - self._since.get(device, now) > STEADY_SECONDS:
            self._in_a_row[device] = 0
        seconds = wait(self._in_a_row[device])
        self._done[device] += 1
        self._in_a_row[device] += 1
        return seconds


class EvaluatorRestarts:
    """Restarts of the evaluator, as long as evaluators score versions."""

    def __init__(self, experiment: Experiment) -> None:
        stop, replay = experiment.stop, experiment.replay
        recorded_end = replay.trace is not None and (replay.mode == "strict" or replay.end == "stop")
        self.needed = stop.seconds is None and stop.versions is None and not recorded_end
        """Whether only a score can end the run."""
        self._scored: int | None = None
        self._in_a_row = 0

    def after_death(self, scored: int) -> float | None:
        """Host seconds until the restart; None if there is no further one. ``scored``: the last scored version."""
        if scored != self._scored:
            self._in_a_row = 0
        self._scored, before = scored, self._in_a_row
        self._in_a_row += 1
        return wait(before) if self._in_a_row < MOST_EVALUATORS else None


class Schedule:
    """The kills and forks that are still to come, in order."""

    def __init__(self, actions: Iterable[ScheduledAction] = ()) -> None:
        self._actions = sorted(actions, key=_moment)

    @property
    def next(self) -> float:
        """The moment of the first action; infinity if there is none."""
        return self._actions[0].moment if self._actions else math.inf

    def forks_any(self, names: Container[str]) -> bool:
        """Whether an action forks one of these processes again."""
        return any(act.do != "kill" and act.device in names for act in self._actions)

    def add(self, act: ScheduledAction) -> None:
        bisect.insort(self._actions, act, key=_moment)

    def take(self) -> ScheduledAction:
        """Remove and return the first action. A scripted kill cancels restarts by the policy."""
        act = self._actions.pop(0)
        if act.do == "kill":
            self._actions = [other for other in self._actions if (other.device, other.do) != (act.device, "restart")]
        return act

    def drop(self, names: Container[str]) -> None:
        """Cancel all actions for these processes."""
        self._actions = [act for act in self._actions if act.device not in names]

    def clear(self) -> None:
        self._actions.clear()


def _moment(act: ScheduledAction) -> float:
    return act.moment
