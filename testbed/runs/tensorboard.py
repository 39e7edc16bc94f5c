"""Event files for TensorBoard: scores and versions of a run, computed from its trace.

The step is the version, the wall time is when it was made by the host's clock. The same trace gives the same file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from testbed.common.errors import UserError
from testbed.runs.results.table_rows import MetricRow, VersionRow
from testbed.runs.run_results import RunResults

FOLDER = "tensorboard"
_FLEET = ("joules", "bytes")
_PER_VERSION = ("updates", "weight", "latency_s", "mean_staleness", "max_staleness")
_FORMAT = "brain.Event:2"


class Point(NamedTuple):
    """The scalars of one version."""

    version: int
    host_s: float
    scalars: dict[str, float]


def check() -> None:
    """Raise UserError if the package tensorboard is missing; called before a run begins."""
    _writers()


def write(results: RunResults, folder: Path) -> None:
    """Write the event file of a run, unless the run never began."""
    header = results.scanned.total.header
    if header is None:
        return
    event, summary, record_writer = _writers()
    started = datetime.fromisoformat(header.started).timestamp()
    folder.mkdir(exist_ok=True)
    with (folder / f"events.out.tfevents.{started:.0f}.edgebed").open("wb") as file:
        writer = record_writer(file)
        writer.write(event(wall_time=started, file_version=_FORMAT).SerializeToString())
        for point in points(results):
            values = [summary.Value(tag=tag, simple_value=value) for tag, value in point.scalars.items()]
            moment = started + point.host_s
            writer.write(event(wall_time=moment, step=point.version, summary=summary(value=values)).SerializeToString())


def points(results: RunResults) -> Iterator[Point]:
    """The scalars of each version; unknown ones are left out."""
    scored = {row.version: row for row in results.metrics}
    for row, score in _paired(results.versions, scored):
        version = next(each.version for each in (row, score) if each is not None)
        found = {f"versions/{key}": getattr(row, key) for key in _PER_VERSION if row is not None}
        if score is not None:
            found |= {f"fleet/{key}": getattr(score, key) for key in _FLEET}
            found |= {f"scores/{key}": value for key, value in score.scores.items()}
        moment = next(each.time_s for each in (row, score) if each is not None)
        scalars = {tag: float(value) for tag, value in found.items() if value is not None}
        yield Point(version, moment * results.summary.dilation, scalars)


def _paired(
    made: Iterable[VersionRow], scored: dict[int, MetricRow]
) -> Iterator[tuple[VersionRow | None, MetricRow | None]]:
    """Each version with its score, in order. Version 0 is scored, but has no row."""
    left = sorted(scored, reverse=True)
    for row in made:
        while left and left[-1] < row.version:
            yield None, scored[left.pop()]
        score = scored[left.pop()] if left and left[-1] == row.version else None
        yield row, score
    for version in reversed(left):
        yield None, scored[version]


def _writers() -> tuple[Any, Any, Any]:
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError:
        raise UserError(
            "--tensorboard: needs tensorboard, which is not installed; install it: pip install tensorboard, or"
            " 'edgebed[tensorboard]'"
        ) from None
    return Event, Summary, RecordWriter
