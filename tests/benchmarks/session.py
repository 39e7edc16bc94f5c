"""One call of ``make bench``: carries out benchmarks, prints their figures and keeps them in the history."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from types import ModuleType

from rich.console import Console

from tests.benchmarks.options import Options
from tests.benchmarks.records import history, provenance, terminal
from tests.benchmarks.records.figure import Figure
from tests.benchmarks.records.history import Occasion
from tests.benchmarks.records.provenance import ROOT, PressureMeter, Provenance
from tests.benchmarks.records.terminal import Printer

_WIDTH = 170


class Session:
    """``keep``: whether figures are appended to the history file."""

    def __init__(self, options: Options, *, command: str, keep: bool, file: Path = history.FILE) -> None:
        self._options, self._command, self._keep, self._file = options, command, keep, file
        self._provenance = Provenance.of(options.checkout or ROOT)
        host = (self._provenance.processor, self._provenance.cores)
        self._console = Console(width=_WIDTH)
        self._printer = Printer(self._console, terminal.last_committed(provenance.committed(file), host))
        self.figures = self.missed = self.failed = 0

    def run(self, name: str, benchmark: ModuleType) -> None:
        """Carry out one benchmark. Each figure is printed and kept as soon as it is known; a failure is printed."""
        before = provenance.pressure_now()
        self._printer.title(name, (benchmark.__doc__ or name).splitlines()[0], before)
        occasion = Occasion(
            benchmark=name,
            command=self._command,
            quick=self._options.reduces(getattr(benchmark, "TURNS", 1)),
            checkout=self._options.checkout is not None,
            provenance=self._provenance,
        )
        meter = PressureMeter()
        try:
            for figure in benchmark.measure(self._options):
                self._take(figure, occasion, (before, meter()))
        except (
            ArithmeticError,
            AssertionError,
            LookupError,
            OSError,
            RuntimeError,
            ValueError,
            subprocess.SubprocessError,
        ) as error:
            self.failed += 1
            self._printer.failed(name, error)

    def _take(self, figure: Figure, occasion: Occasion, pressure: tuple[float | None, float | None]) -> None:
        if occasion.checkout:
            figure = dataclasses.replace(figure, column=f"{figure.column} at {occasion.provenance.commit}")
        line = history.line(figure, occasion, provenance.now(), pressure)
        if self._keep:
            history.append(self._file, line)
        self._printer.figure(line)
        self.figures += 1
        self.missed += line.reached is False

    def close(self) -> None:
        """Say what was measured and where it is kept."""
        kept = f"kept in {self._file.name}; `make bench-page` writes docs/benchmarks.md" if self._keep else "not kept"
        self._console.print(
            f"\n{self.figures} figures, {self.missed} aims missed, {self.failed} benchmarks failed; {kept}",
            highlight=False,
        )
