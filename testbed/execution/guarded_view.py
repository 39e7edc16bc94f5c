"""A view of a run that cannot end or fail the run, whatever goes wrong while it shows something."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from testbed.execution.live_progress import Quiet

if TYPE_CHECKING:
    from aggregator.process.status import Status


class GuardedView:
    """Passes everything on to a view. After the first error the view is closed, and the run goes on without one."""

    def __init__(self, open_view: Callable[[], Quiet]) -> None:
        self._view: Quiet | None = None
        self.failure: str | None = None
        """The traceback of the error that ended the view, if one did."""
        self._show(lambda: self._open(open_view))

    def _open(self, open_view: Callable[[], Quiet]) -> None:
        self._view = open_view()

    def starting(self, ready: int, total: int) -> None:
        self._pass_on(lambda view: view.starting(ready, total))

    def status(self, status: Status) -> None:
        self._pass_on(lambda view: view.status(status))

    def stopping(self) -> None:
        self._pass_on(lambda view: view.stopping())

    def note(self, text: str) -> None:
        self._pass_on(lambda view: view.note(text))

    def close(self) -> None:
        self._pass_on(lambda view: view.close())

    def _pass_on(self, show: Callable[[Quiet], None]) -> None:
        view = self._view
        if view is not None and not self._show(lambda: show(view)):
            self._view = None
            self._show(view.close)  # or the cursor of a terminal stays hidden

    def _show(self, show: Callable[[], None]) -> bool:
        try:
            show()
        except Exception:  # noqa: BLE001  hours of computing must not end in a failure to show them
            self.failure = self.failure or traceback.format_exc()
            return False
        return True
