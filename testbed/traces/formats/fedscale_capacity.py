"""FedScale's ``client_device_capacity``: a table of client → {computation, communication}, as pickle or JSON.

``computation`` is milliseconds per sample of inference, and FedScale counts training as three times that.
``communication`` is in kbit/s: the README does not give the unit, but the aggregator divides sizes in kbit by it.
Neither depends on the model or the data (Lai et al., ICML 2022; ``benchmark/dataset/data/device_info/README.md``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from testbed.traces.formats import table_file
from testbed.traces.formats.found_trace import Entry, FoundTrace, ImportOptions, number

TRAINING = 3
"""Time to train on a sample ÷ time of inference."""
_LEAST = 1e-9


def read(path: Path, options: ImportOptions) -> Iterator[Entry]:
    for client, table in table_file.entries(path):
        yield Entry(name=client, build=partial(_found, client, table, f"{path}, {client!r}"))


def _found(client: str, table: object, place: str) -> FoundTrace:
    computation, communication = table_file.get(table, ("computation", "communication"), place)
    mbit = number(communication, place, "communication", least=_LEAST) / 1000
    seconds = number(computation, place, "computation", least=_LEAST) * TRAINING / 1000
    return FoundTrace(
        name=f"client-{client}",
        device={"seconds_per_sample": seconds},
        link={"down": {"mbit": mbit}, "up": {"mbit": mbit}},
    )
