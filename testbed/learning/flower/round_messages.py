"""The messages that a project's strategy would send, round by round.

Theory of operation
    Rounds are configured in order and kept, because a strategy may change its configuration in place; the generators
    have a seed for each round, because a strategy may draw. So each process comes to the same messages, however often
    it is forked, and so does ``verify``. The message of evaluations is made once, when the task is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from testbed.learning.flower.message_identity import SERVER_NODE, act_as
from testbed.learning.flower.seeded_call import seeded
from testbed.learning.flower.server_side import Content, ServerSide


class RoundMessages:
    """The contents of messages, without the arrays: those are of each job."""

    def __init__(self, server: ServerSide, *, seed: int, folder: Path, patience: float) -> None:
        """``folder``: that of the project. ``patience``: CPU seconds in which a round is configured."""
        self._server, self._seed, self._folder, self._patience = server, seed, folder, patience
        self._rounds: list[Content] = []
        self._evaluation: Content = None

    def train(self, number: int) -> Content:
        """Return the content of a training message in round ``number``, from 1.

        Raises OwnTrainingError, or what the project raises.
        """
        while len(self._rounds) < number:
            following = len(self._rounds) + 1
            self._rounds.append(self._made(following, lambda: self._server.configured(following)))  # noqa: B023
        return self._rounds[number - 1]

    def evaluation(self) -> Content:
        """Return the content of an evaluation message. Raises as :meth:`train`."""
        if self._evaluation is None:
            self._evaluation = self._made(0, self._server.configured_evaluation)
        return self._evaluation

    def _made(self, number: int, make: Callable[[], Content]) -> Content:
        act_as(SERVER_NODE)
        return seeded(self._seed + number, make, self._folder, self._patience)
