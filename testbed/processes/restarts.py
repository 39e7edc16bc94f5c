"""Who is killed and who is forked anew, and when: decisions only. No process, no clock.

The script says so beforehand; after a death that nobody wanted, a policy does. Where both have a say, the script wins.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Container, Iterable

from testbed.profile.schema import Experiment
from testbed.profile.script import ScheduledAction

FIRST_WAIT, LONGEST_WAIT = 1.0, 32.0
"""Host seconds from a death to the next fork: twice as many after each death that follows shortly."""
STEADY_SECONDS = 60.0
"""Host seconds: who has lived so long has recovered."""
MOST_EVALUATORS = 5
"""Deaths of evaluators without a score in between, after which there is none any more."""


def wait(deaths_before: int) -> float:
    """Host seconds until somebody who has just died is forked anew."""
    return float(min(FIRST_WAIT * 2 ** min(deaths_before, 16), LONGEST_WAIT))


class Restarts:
    """Of devices, by ``presence.restart``."""

    def __init__(self, policy: int | str) -> None:
        self._most = math.inf if policy == "always" else 0 if policy == "never" else int(policy)
        self._done: Counter[str] = Counter()
        self._in_a_row: Counter[str] = Counter()
        self._since: dict[str, float] = {}

    def began(self, device: str, now: float) -> None:
        """It lives, since this host second."""
        self._since[device] = now

    def after_death(self, device: str, now: float) -> float | None:
        """Host seconds until it is forked anew; None: it stays dead."""
        if self._done[device] >= self._most:
            return None
        if now - self._since.get(device, now) > STEADY_SECONDS:
            self._in_a_row[device] = 0
        seconds = wait(self._in_a_row[device])
        self._done[device] += 1
        self._in_a_row[device] += 1
        return seconds


class EvaluatorRestarts:
    """One after the other, as long as they score anything."""

    def __init__(self, experiment: Experiment) -> None:
        stop, replay = experiment.stop, experiment.replay
        recorded_end = replay.trace is not None and (replay.mode == "strict" or replay.end == "stop")
        self.needed = stop.seconds is None and stop.versions is None and not recorded_end
        """Whether the run ends by a score, and by nothing else."""
        self._scored: int | None = None
        self._in_a_row = 0

    def after_death(self, scored: int) -> float | None:
        """Host seconds until the next one is forked; None: no more. ``scored``: the last version with a score."""
        if scored != self._scored:
            self._in_a_row = 0
        self._scored, before = scored, self._in_a_row
        self._in_a_row += 1
        return wait(before) if self._in_a_row < MOST_EVALUATORS else None


class Schedule:
    """What is still to be done, in the order of its moments."""

    def __init__(self, actions: Iterable[ScheduledAction] = ()) -> None:
        self._actions = sorted(actions, key=_moment)

    @property
    def next(self) -> float:
        """The moment of what comes first."""
        return self._actions[0].moment if self._actions else math.inf

    def brings_back(self, names: Container[str]) -> bool:
        """Whether one of them is to live again."""
        return any(act.do != "kill" and act.device in names for act in self._actions)

    def add(self, act: ScheduledAction) -> None:
        bisect.insort(self._actions, act, key=_moment)

    def take(self) -> ScheduledAction:
        """What comes first. Whom the script kills, nobody brings back but the script."""
        act = self._actions.pop(0)
        if act.do == "kill":
            self._actions = [other for other in self._actions if (other.device, other.do) != (act.device, "restart")]
        return act

    def drop(self, names: Container[str]) -> None:
        """Nothing is to be done to them any more."""
        self._actions = [act for act in self._actions if act.device not in names]

    def clear(self) -> None:
        self._actions.clear()


def _moment(act: ScheduledAction) -> float:
    return act.moment
