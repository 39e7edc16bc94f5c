"""``run_testbed.py data``: the partition of an experiment as a table, as JSON and as a heat map."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from testbed.cli import options
from testbed.cli.options import ExperimentOptions
from testbed.common.console import TerminalConsole, say
from testbed.common.errors import UserError
from testbed.common.json_text import json_text
from testbed.common.terminal import plain_text
from testbed.learning import setup
from testbed.learning.data import progress_bar
from testbed.partition import heatmap, label_table, partition_summary
from testbed.partition import partition as partitions
from testbed.partition.partition import Partition
from testbed.profile import fleet
from testbed.profile.schema import name_and_parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionViewOptions:
    all: bool
    png: Path | None
    format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOptions:
    experiment: ExperimentOptions
    view: PartitionViewOptions


def show_partition(given: DataOptions) -> int:
    check(given.view)
    experiment = options.experiment(given.experiment)
    try:
        with progress_bar.ProgressBar() as progress:
            data, shards, test = setup.partition(experiment, progress)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001  a user's own task may fail in any way
        plain_text.show_traceback()
        plain_text.show_error(f"task {experiment.task_name}: {type(error).__name__}: {error}")
        return 1
    split, _ = name_and_parameters(experiment.task_parameters["split"])
    title = f"{experiment.name}: {experiment.task_name}, split {split}"
    partition = Partition(title=title, data=data, shards=shards, names=fleet.names(experiment), test=test)
    return show(partition, given.view, TerminalConsole())


def check(given: PartitionViewOptions) -> None:
    """Raise UserError if a heat map cannot be drawn: before the data is loaded, which may take a while."""
    if given.png is not None:
        heatmap.check()


def show(partition: Partition, given: PartitionViewOptions, console: Console) -> int:
    summary = partition_summary.summary(partition)
    if given.png is not None:
        heatmap.draw(grid(partition), given.png)
    if given.format == "json":
        plain_text.show_json(json_text(summary))
        return 0
    label_table.show(console, summary, every=given.all)
    if given.png is not None:
        say(console, f"heat map: {given.png}")
    return 0


def grid(partition: Partition) -> heatmap.HeatmapGrid:
    """Return what the heat map shows: samples of each label (or range of values) on each device."""
    if partition.has_classes:
        rows, kind = partitions.labels(partition), "label"
        counts = partitions.counts(partition.data.train, partition.shards, len(rows))
    else:
        (rows, counts), kind = partitions.binned(partition), "target, from"
    return heatmap.HeatmapGrid(title=partition.title, counts=counts, rows=rows, devices=partition.names, kind=kind)


COMMAND = options.command(DataOptions, show_partition)
