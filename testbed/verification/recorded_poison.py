"""Falsifies the updates of Byzantine devices again, with the code and the noise of the device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from testbed.emulation.faults import timetable
from testbed.emulation.poison import Poison, poison_at, poisoned
from testbed.profile.fleet import DeviceSpec
from testbed.verification.trace_outline import TraceOutline
from testbed.wire.messages import Train, Vector
from testbed.wire.ticket_ranges import range_of


class PoisonDiffers(Exception):
    """The trace has another poison of an update than the script."""

    def __init__(self, ticket: int, expected: Poison | None, found: Poison | None) -> None:
        super().__init__(ticket)
        self.expected, self.found = f"{_in_words(expected)} of ticket {ticket}", _in_words(found)


class RecordedPoison:
    """The poison of all updates of a run.

    The script decides, by the moment at which a job ended. The trace decides in a replay, whose poison was recorded
    before, and for an update whose moment is not in the trace, because it was rejected.
    """

    def __init__(self, devices: Iterable[DeviceSpec], seed: int, outline: TraceOutline) -> None:
        assert outline.header is not None
        self._specs: Mapping[str, DeviceSpec] = {spec.name: spec for spec in devices}
        self._seed, self._outline, self._is_replay = seed, outline, bool(outline.header.replay)

    def apply(self, device: str, train: Train, delta: Vector, finished: float | None) -> Vector:
        """Return the result of a job as its device sent it. ``finished``: when the job ended; None: not known.

        Raises PoisonDiffers if the trace has another poison.
        """
        spec, found = self._specs[device], self._outline.poisoned.get(train.ticket)
        poison = found
        if finished is not None and not self._is_replay:
            poison = poison_at(spec.script, finished)
            self._compare(train.ticket, poison, found)
        if poison is None:
            return delta
        return poisoned(delta, poison, timetable(spec, self._seed).poison_noise(train.number))

    def _compare(self, ticket: int, expected: Poison | None, found: Poison | None) -> None:
        if expected == found:
            return
        if expected is None and self._outline.is_resumed:
            return  # the job ended twice, the first time with poison
        if found is None and range_of(ticket) > 0:
            return  # a member of a cluster may die before it reports its poison
        raise PoisonDiffers(ticket, expected, found)


def _in_words(poison: Poison | None) -> str:
    return "no poison" if poison is None else f"poison {poison.how} with factor {poison.factor}"
