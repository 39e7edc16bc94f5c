"""A paper with two strategies on embedded data, a runner that runs nothing, and the run folders that papers read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

from msgspec.structs import replace

from testbed.analysis.metrics import summary
from testbed.common.files.spool import RowSpool
from testbed.common.json_text import json_text
from testbed.history import trace
from testbed.papers.framework.chapter import Chapter, ChapterTable, ClaimRow, ClaimVerdict, PaperFigure
from testbed.papers.framework.paper import Chosen, Paper
from testbed.papers.framework.paper_run import PaperRun
from testbed.papers.framework.result import Result, Results
from testbed.papers.framework.search import Search
from testbed.runs.results.certificate import Certificate, Verdict
from testbed.runs.results.result_files import csv_text
from testbed.runs.results.table_rows import MetricRow, RoundRow, VersionRow
from testbed.runs.trace_scan import scan
from testbed.sweeps.runner import Ended, Runner

VERSION = VersionRow(
    version=1,
    time_s=1.0,
    latency_s=1.0,
    updates=1,
    new_updates=1,
    weight=1.0,
    mean_staleness=0.0,
    max_staleness=0,
)
ROUND = RoundRow(
    round=1,
    time_s=1.0,
    devices=1,
    fastest_s=1.0,
    slowest_s=1.0,
    delay_s=0.0,
    cumulative_delay_s=0.0,
    energy_proxy_j=None,
)
_HEADER = trace.Header(
    t=0.0,
    schema=trace.SCHEMA,
    name="quickstart",
    strategy="fedasync",
    seed=1,
    dilation=1.0,
    demand=0.5,
    pressure=None,
    started="2026-01-01T00:00:00.000+00:00",
    host="a host",
)


def _searched(value: float) -> list[PaperRun]:
    return [paper_run(f"search-{value:g}", seed=101, settings={"training.lr": value, "dilation": 1.0})]


def paper_run(name: str, **more: object) -> PaperRun:
    given: dict[str, object] = {
        "profile": "quickstart.toml",
        "seed": 1,
        "settings": {"stop.seconds": 1, "dilation": 1.0},
    }
    return PaperRun(name=name, **(given | more))  # type: ignore[arg-type]


def paper_runs(chosen: Chosen) -> list[PaperRun]:
    lr = {"training.lr": chosen["rate"], "stop.seconds": 1, "dilation": 1.0}
    found = []
    for seed in (1, 2, 3):
        found.append(paper_run(f"fedasync-{seed}", seed=seed, strategy="fedasync", settings=lr))
        found.append(
            paper_run(f"fedbuff-{seed}", seed=seed, strategy="fedbuff", settings=lr, replays=f"fedasync-{seed}")
        )
    return found


def chapter(results: Results, chosen: Chosen) -> Chapter:
    known = [results[f"fedbuff-{seed}"].final() for seed in (1, 2, 3) if f"fedbuff-{seed}" in results]
    row = ClaimRow(
        where="Table I",
        claim="a | b",
        ours=f"{fmean(known):.3f}" if known else "–",
        verdict=ClaimVerdict.AGREES if known else ClaimVerdict.MISSING,
        data="digits-on-disk",
    )
    return Chapter(
        setting=f"Rate {chosen['rate']:g}.",
        rows=[row],
        tables=[ChapterTable(title="All of it", header=("a", "b"), lines=[("1", "2")])],
        figures=[
            PaperFigure(name="line", caption="A line", draw=lambda figure: figure.subplots().plot([1, 2], [3, 4]))
        ],
    )


PAPER = Paper(
    name="small",
    title="A small paper",
    citation="No author, 2026",
    searches=(
        Search(
            name="rate",
            key="training.lr",
            values=(0.1, 0.2, 0.4),
            paper_runs=_searched,
            measure="final accuracy",
            score=lambda found: fmean(result.final() for result in found),
        ),
    ),
    paper_runs=paper_runs,
    chapter=chapter,
)


def scored(time_s: float, version: int = 0, joules: float | None = None, **scores: float) -> MetricRow:
    return MetricRow(time_s=time_s, host_s=time_s, version=version, joules=joules, bytes=0, scores=scores)


def leave_run(
    folder: Path,
    metrics: Sequence[MetricRow],
    *,
    versions: Sequence[VersionRow] = (),
    rounds: Sequence[RoundRow] = (),
    seconds: float | None = None,
    verdict: Verdict = Verdict.PASS,
) -> Path:
    """Write the files of a run that papers read, and return its folder. It ends with its last score, or at ``seconds``.

    Its trace has a header only, so that no result can be computed from it.
    """
    folder.mkdir(parents=True)
    writer = trace.TraceWriter(folder / "trace.jsonl")
    writer.write(_HEADER)
    writer.close()
    found = replace(
        summary(scan([_HEADER]).total, scored=metrics, rounds=RowSpool(RoundRow, rounds)),
        versions=len(versions),
        seconds=metrics[-1].time_s if seconds is None else seconds,
        fidelity=Certificate(verdict=verdict, invariants=()),
    )
    files = {
        "metrics.csv": csv_text(MetricRow, metrics),
        "versions.csv": csv_text(VersionRow, versions),
        "summary.json": json_text(found),
    }
    if rounds:
        files["rounds.csv"] = csv_text(RoundRow, rounds)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def _leave_small_run(folder: Path, accuracy: float, verdict: Verdict = Verdict.PASS) -> Path:
    """Write a run with three scores, the second of which is ``accuracy`` and has no joules."""
    metrics = [
        scored(0.0, version=0, joules=0.0, accuracy=0.1),
        scored(1.0, version=10, accuracy=accuracy),
        scored(2.0, version=20, joules=9.0, accuracy=round(accuracy - 0.1, 3)),
    ]
    return leave_run(folder / "quickstart-20260101-000000", metrics, verdict=verdict)


class Stand(Runner):
    """Replaces the runner: records the runs, and writes the result that ``becomes`` returns for the n-th attempt."""

    def __init__(self, becomes: Callable[[str, int], str] = lambda name, number: "PASS") -> None:
        super().__init__()
        self.ran: list[str] = []
        self.words: list[list[str]] = []
        self._becomes = becomes

    def run(self, words: Sequence[str], out: Path, under_way: Callable[[float], None]) -> Ended:
        self.ran.append(out.name)
        self.words.append(list(words))
        became = self._becomes(out.name, self.ran.count(out.name))
        if became == "interrupted":
            self.interrupted_by = 2
        if became in ("interrupted", "failed"):
            return Ended(code=1, seconds=1.0, run_folder=None, accuracy=None, problem="exit code 1: no")
        run = _leave_small_run(out, accuracy=0.9 if out.name == "search-0.4" else 0.5, verdict=Verdict(became))
        return Ended(code=0, seconds=2.0, run_folder=run.resolve(), accuracy=0.5, problem="")


def result(folder: Path, accuracy: float = 0.5) -> Result:
    return Result(paper_run=paper_run("one"), folder=_leave_small_run(folder, accuracy), took=1.0, attempts=1)
