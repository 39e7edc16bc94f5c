"""A CSV: the first line names the columns, and each other line is a sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from testbed.common.parameters import param
from testbed.learning.own_data.own_data import VECTOR_NETWORKS, OwnData, network_among

if TYPE_CHECKING:
    from testbed.learning.data.readers.source import FoundFiles


@dataclass(kw_only=True)
class CsvData(OwnData):
    """The keys of a CSV: one line is a sample."""

    kind: ClassVar[str] = "csv"
    file: str = param(meaning="the CSV; path relative to the profile")
    label: str = param(meaning="name of the column with the label")
    features: tuple[str, ...] = param((), "names of the columns that the network gets; empty: all others")
    one_hot: tuple[str, ...] = param((), "columns of text: each of their texts becomes a column of 0 and 1")
    owner: str | None = param(None, "column that says whose a sample is, for the split natural; it is no feature")
    test: str | None = param(None, "a second CSV with the test samples; unset: a share of the first is held out")
    missing: str = param(
        "refuse",
        "a line without all values. refuse: it is an error; skip: the line is left out",
        choices=("refuse", "skip"),
    )
    delimiter: str = param(",", "what separates cells", choices=(",", ";", "\t", "|"))
    model: str = network_among(VECTOR_NETWORKS)

    def source(self) -> Path:
        return Path(self.file)

    def paths(self) -> Mapping[str, str | None]:
        return {"file": self.file, "test": self.test}

    def found(self) -> FoundFiles:
        from testbed.learning.data.own_files import csv_file
        from testbed.learning.data.own_files.csv_columns import CsvChoice
        from testbed.learning.data.own_files.file_state import state_of
        from testbed.learning.data.own_files.size_limit import SizeLimit
        from testbed.learning.data.readers.source import FoundFiles

        choice = CsvChoice(
            label=self.label,
            is_value=self.is_value,
            features=self.features,
            one_hot=self.one_hot,
            owner=self.owner,
            skip_missing=self.missing == "skip",
            delimiter=self.delimiter,
        )
        train, test = self.source(), None if self.test is None else Path(self.test)
        files = (train,) if test is None else (train, test)
        limit = SizeLimit(path=train, most_mb=self.most_mb)
        return FoundFiles(
            folder=train.parent,
            files=files,
            state=state_of(files, choice),
            parse=partial(csv_file.parse, train, test, choice, limit),
        )
