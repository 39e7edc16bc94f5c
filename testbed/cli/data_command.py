"""``run_testbed.py data``: its options, and what was dealt as a table, as JSON and as a picture."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console

from testbed.common.console import say
from testbed.partition import heatmap, label_table, partition_summary
from testbed.partition import partition as dealing
from testbed.partition.partition import Partition

DESCRIPTION = """\
Which training samples the split of an experiment deals to which device, without running it: how many of which label,
how uneven that is, and what nobody has. Where targets are values, their mean and standard deviation.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Besides those that say which experiment."""
    parser.add_argument("--all", action="store_true", help="every device of a large fleet, on a terminal too")
    parser.add_argument("--png", type=Path, metavar="FILE", help="also a heat map, labels by devices")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format")


def check(options: argparse.Namespace) -> None:
    """Before the data is loaded, which may take a while. Raises UserError."""
    if options.png is not None:
        heatmap.check()


def show(partition: Partition, options: argparse.Namespace, console: Console) -> int:
    told = partition_summary.as_table(partition)
    if options.png is not None:
        heatmap.draw(grid(partition), options.png)
    if options.format == "json":
        print(json.dumps(told, indent=2))
        return 0
    label_table.show(console, told, every=options.all)
    if options.png is not None:
        say(console, f"heat map: {options.png}")
    return 0


def grid(partition: Partition) -> heatmap.HeatmapGrid:
    """What the heat map shows."""
    if partition.has_classes:
        rows, kind = dealing.labels(partition), "label"
        counts = dealing.counts(partition.data.train, partition.shards, len(rows))
    else:
        (rows, counts), kind = dealing.binned(partition), "target, from"
    return heatmap.HeatmapGrid(title=partition.title, counts=counts, rows=rows, devices=partition.names, kind=kind)
