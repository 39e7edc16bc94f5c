"""Event files for TensorBoard: scores and versions of a run, computed from its trace.

The step is the version, the wall time is when it was made by the host's clock. The same trace gives the same file.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from testbed.analysis import run_tables
from testbed.analysis.totals import Totals
from testbed.common.errors import UserError

FOLDER = "tensorboard"
_FLEET = ("joules", "bytes")
_NO_SCORES = ("time_s", "host_s", "version", *_FLEET)
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


def write(total: Totals, folder: Path) -> None:
    """Write the event file of a run, unless the run never began."""
    if total.header is None:
        return
    event, summary, record_writer = _writers()
    started = datetime.fromisoformat(total.header.started).timestamp()
    folder.mkdir(exist_ok=True)
    with (folder / f"events.out.tfevents.{started:.0f}.edgebed").open("wb") as file:
        writer = record_writer(file)
        writer.write(event(wall_time=started, file_version=_FORMAT).SerializeToString())
        for point in points(total):
            values = [summary.Value(tag=tag, simple_value=value) for tag, value in point.scalars.items()]
            moment = started + point.host_s
            writer.write(event(wall_time=moment, step=point.version, summary=summary(value=values)).SerializeToString())


def points(total: Totals) -> Iterator[Point]:
    """The scalars of each version; unknown ones are left out."""
    made = {row["version"]: row for row in run_tables.version_rows(total)}
    scored = {row["version"]: row for row in run_tables.metric_rows(total)}
    for version in sorted(made.keys() | scored.keys()):
        row, score = made.get(version, {}), scored.get(version, {})  # version 0 is scored, but has no row
        found = {f"versions/{key}": row.get(key) for key in _PER_VERSION}
        found |= {f"fleet/{key}": score.get(key) for key in _FLEET}
        found |= {f"scores/{key}": value for key, value in score.items() if key not in _NO_SCORES}
        moment: float = (row or score)["time_s"]
        scalars = {tag: float(value) for tag, value in found.items() if value is not None}
        yield Point(version, moment * total.dilation, scalars)


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
