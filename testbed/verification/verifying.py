"""Verifies a run: recomputes it from its folder, without processes or a clock, and compares (ADR 29)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from devices.compute.job_computer import JobComputer
from testbed.common.errors import UserError
from testbed.common.parameters import Named
from testbed.history import trace
from testbed.history.trace import TraceError
from testbed.learning.one_thread import one_thread
from testbed.runs.stored_run import StoredRun
from testbed.verification import final_files, run_parts
from testbed.verification.event_matching import EventMatching, departure
from testbed.verification.final_files import FinalFiles
from testbed.verification.recorded_aggregator import RecordedAggregator
from testbed.verification.recorded_devices import RecordedDevices
from testbed.verification.recorded_poison import RecordedPoison
from testbed.verification.run_parts import RunParts
from testbed.verification.trace_cursor import TraceCursor
from testbed.verification.trace_outline import FinishedJobs, TraceOutline, outline
from testbed.verification.verification_result import DepartureFound, Verification
from testbed.wire.messages import Vector

_NOT_RECOMPUTED = (trace.Refusal, trace.Load, trace.Canary, trace.OutOfRange)
"""Measurements, and what strangers sent: nothing follows from these."""

Report = Callable[[int, int], None]
"""Receives how many updates are recomputed, of how many."""


def verify(
    place: str | Path | StoredRun,
    report: Report = lambda done, total: None,
    objects: Mapping[str, Named] | None = None,
) -> Verification:
    """Recompute a run and compare it with what was recorded.

    ``objects``: the task and the strategy (by these keys) of a run that was made from Python objects.

    Raises UserError if that is impossible: it is not the folder of a run that has ended, or its data or code is
    missing. The code that its profile names is imported.
    """
    run = place if isinstance(place, StoredRun) else StoredRun.open(place)
    try:
        found = outline(trace.read(run.trace))
        _check_complete(run, found)
        differing = run_parts.differences(run_parts.meta_of(run))
        from testbed.learning.training.own_training import generators_restored  # imports torch

        with one_thread(), generators_restored():
            return _Recomputation(run, found, differing, report, objects or {}).result()
    except (TraceError, OSError) as error:
        raise UserError(f"{error}; restore the run from a copy, or run the experiment again") from None


def _check_complete(run: StoredRun, found: TraceOutline) -> None:
    if found.header is None:
        raise UserError(f"{run.trace}: has no header; restore it from a copy, or run the experiment again")
    if found.stopped is None:
        why = "the run failed, was killed, or goes on"
        raise UserError(f"{run.path}: its trace has no end: {why}; resume it, or run it again")
    if not found.stopped.model or (found.has_heads and not found.adopted):
        missing = "when cluster heads received their models" if found.stopped.model else "the hash of its final model"
        raise UserError(
            f"{run.path}: an earlier version recorded this run, without {missing}; run the experiment again"
        )


class _Recomputation:
    """One run while it is recomputed."""

    def __init__(
        self,
        run: StoredRun,
        found: TraceOutline,
        differing: list[str],
        report: Report,
        objects: Mapping[str, Named],
    ) -> None:
        self._run, self._outline, self._report = run, found, report
        assert found.header is not None
        self._parts: RunParts = run_parts.assemble(run, objects, found.header)
        self._matching = EventMatching(exact=not differing)
        self._files = FinalFiles(run, self._parts.experiment, differing)
        indices = {spec.name: spec.index for spec in self._parts.devices}
        self._computer = JobComputer(self._parts.task, self._parts.experiment.seed, indices)
        self._cursor = TraceCursor(trace.read(run.trace))
        keeps_updates = self._parts.strategy().keeps_updates
        finished = FinishedJobs(trace.read(run.trace) if keeps_updates else ())
        poison = RecordedPoison(self._parts.devices, self._parts.experiment.seed, found)
        devices = RecordedDevices(self._computer, self._parts.devices, poison, finished)
        self._aggregator = RecordedAggregator(self._parts, self._cursor, found, devices, self._matching)
        self._checkpointed = self._files.checkpointed_version()
        self._kept: dict[int, Vector] = {}
        """Version → its model, of versions that will be compared."""

    def result(self) -> Verification:
        """Recompute everything. The first departure ends it."""
        difference: float | None = None
        try:
            self._repeat_events()
            difference = self._compare_files()
            found = None
        except DepartureFound as end:
            found = end.departure
        model, engine = final_files.digest(self._aggregator.engine.model), self._aggregator.engine
        assert self._outline.header is not None
        assert self._outline.stopped is not None
        is_equal = model == self._outline.stopped.model and not difference
        return Verification(
            run=str(self._run.path),
            verdict="departs" if found is not None else "verified" if is_equal else "close",
            strategy=self._outline.header.strategy,
            events=self._cursor.line - (self._cursor.event is None),
            updates=self._computer.computed,
            versions=engine.version,
            model=model,
            departure=found,
            largest_difference=difference,
            notes=self._files.notes,
        )

    def _repeat_events(self) -> None:
        cursor, total = self._cursor, self._outline.arrivals
        self._keep_model()
        while (event := cursor.advance()) is not None:
            if isinstance(event, trace.Header):
                self._check_header(event)
            elif isinstance(event, trace.Scored):
                self._check_score(event)
            elif not isinstance(event, _NOT_RECOMPUTED):
                self._aggregator.take(event)
                self._keep_model()
                self._report(self._computer.computed, total)

    def _keep_model(self) -> None:
        """Keep the present model if it will be compared with a score or with the checkpoint."""
        engine = self._aggregator.engine
        if engine.version in self._outline.scored or engine.version == self._checkpointed:
            self._kept[engine.version] = engine.model

    def _check_header(self, event: trace.Header) -> None:
        if event != self._outline.header:
            raise departure(event, self._cursor.line, expected="one header only")
        expected = run_parts.expected_header(self._parts.experiment, event)
        self._matching.check(expected, event, self._cursor.line)

    def _check_score(self, event: trace.Scored) -> None:
        model = self._kept.get(event.version)
        if model is None:
            raise departure(event, self._cursor.line, expected="a version that was made before")
        if event.version != self._checkpointed:
            del self._kept[event.version]
        metrics = {name: value for name, value in self._parts.task.evaluate(model).items() if math.isfinite(value)}
        self._matching.check(replace(event, metrics=metrics), event, self._cursor.line)

    def _compare_files(self) -> float | None:
        """Compare the other files. Return the largest difference of the final model; None if it is not there."""
        engine, files = self._aggregator.engine, self._files
        assert self._outline.stopped is not None
        difference = files.compare_model(self._parts.task.tensors(engine.model), exact=self._matching.exact)
        files.check_summary(engine.version, self._outline.stopped.model)
        if self._matching.exact and self._checkpointed is not None and self._checkpointed in self._kept:
            files.check_checkpoint(self._checkpointed, self._kept[self._checkpointed])
        return difference
