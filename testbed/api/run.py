"""A run for notebooks and scripts: everything that it left, and its report."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Self

from aggregator.strategies import STRATEGIES
from testbed.api.experiments import StrategyChoice, TaskChoice
from testbed.api.own_classes import chosen
from testbed.common.errors import UserError
from testbed.execution import report_writing
from testbed.learning.tasks import TASKS
from testbed.report.content import report_data
from testbed.runs.stored_run import StoredRun
from testbed.verification.verification_result import Verification


class Report:
    """The page of a run. A notebook shows it; ``save`` writes it to a file."""

    def __init__(self, text: str, title: str) -> None:
        self.html = text
        """The whole page, which needs no network."""
        self._title = title

    def save(self, path: str | Path) -> Path:
        """Write the page; returns its path. Raises UserError if it cannot be written."""
        place = Path(path)
        try:
            place.write_text(self.html, encoding="utf-8")
        except OSError as error:
            raise UserError(f"{place}: cannot be written: {error.strerror}; choose another place") from None
        return place

    def __repr__(self) -> str:
        return f"<report of {self._title}, {len(self.html) / 1e6:.1f} MB: save(path) writes it>"

    def _repr_html_(self) -> str:
        # a frame of its own: the page has styles and a script that must not meet those of the notebook
        return (
            f'<iframe title="{html.escape(self._title)}" sandbox="allow-scripts" style="width: 100%; height: 720px;'
            f' border: 1px solid #ccc" srcdoc="{html.escape(self.html)}"></iframe>'
        )


class Run(StoredRun):
    """A run: ``Run.open(folder)`` opens a stored one, ``testbed.run(profile)`` returns a new one.

    Attributes are read when they are first used: ``header``, ``profile``, ``summary``, ``metrics``, ``versions``,
    ``devices``, ``rounds``, ``certificate``, ``replay_certificate``, ``meta``; ``events()`` yields the trace,
    ``model()`` returns the final model, ``verify()`` recomputes it. A bare trace, a packed one and a run that was
    killed can be opened, too.
    """

    @classmethod
    def open(cls, place: str | Path | StoredRun) -> Self:
        """Open a run by its folder or its trace (.jsonl, .jsonl.gz). Raises NotARun if it is neither."""
        place = place.path if isinstance(place, StoredRun) else place
        # absolute: a notebook may change its working folder before it asks for more
        return super().open(Path(place).absolute() if isinstance(place, str | Path) else place)

    def report(self) -> Report:
        """Draw the page of the run. Raises UserError if the run cannot be read, or matplotlib or jinja2 is missing."""
        data = report_data.gather(self)
        return Report(report_writing.page(data), f"{data.header.name}: {data.header.strategy}")

    def verify(self, *, task: TaskChoice | None = None, strategy: StrategyChoice | None = None) -> Verification:
        """Recompute the run without processes, and compare each event, score and model with what was recorded.

        The result has a ``verdict``, and the first ``departure`` if there is one. The code that the profile names is
        imported. Raises UserError if the run cannot be recomputed: it has not ended, or its data or code is missing.

        Args:
            task, strategy: for a run whose task or strategy was a Python object: the same object, or an equal one.
        """
        from testbed.verification.verifying import verify  # imports torch

        objects = {
            **({} if task is None else {"task": chosen(task, TASKS, "task")}),
            **({} if strategy is None else {"strategy": chosen(strategy, STRATEGIES, "strategy")}),
        }
        return verify(self, objects=objects)

    def _repr_html_(self) -> str:
        """A few figures, for a notebook."""
        summary, certificate = self.summary, self.certificate
        scores = ", ".join(f"{name} {scores.last:.4g}" for name, scores in summary.scores.items())
        rows = {
            "run": str(self.path),
            "strategy": summary.strategy,
            "time": f"{summary.seconds:g} s, {summary.versions} versions, {summary.devices} devices",
            "scores": scores or "none",
            "fidelity": "not certified" if certificate is None else str(certificate.verdict),
        }
        cells = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(text))}</td></tr>" for name, text in rows.items()
        )
        return f"<table>{cells}</table>"
