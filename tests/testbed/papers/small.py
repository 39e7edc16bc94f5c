"""A paper with two strategies on embedded data, and a runner that runs nothing, for tests of a programme."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

from testbed.papers.framework.chapter import Chapter, ChapterTable, ClaimRow, ClaimVerdict, PaperFigure
from testbed.papers.framework.paper import Chosen, Paper
from testbed.papers.framework.paper_run import PaperRun
from testbed.papers.framework.result import Result, Results
from testbed.papers.framework.search import Search
from testbed.sweeps.runner import Ended, Runner


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


def leave_run(folder: Path, accuracy: float = 0.5, verdict: str = "PASS") -> Path:
    """Write the files of a run that papers read."""
    run = folder / "quickstart-20260101-000000"
    run.mkdir(parents=True)
    (run / "summary.json").write_text(json.dumps({"fidelity": {"verdict": verdict}}), encoding="utf-8")
    lines = ["time_s,version,accuracy,joules", "0,0,0.1,0", f"1,10,{accuracy},", f"2,20,{accuracy - 0.1:.3f},9"]
    (run / "metrics.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return run


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
        run = leave_run(out, accuracy=0.9 if out.name == "search-0.4" else 0.5, verdict=became)
        return Ended(code=0, seconds=2.0, run_folder=run.resolve(), accuracy=0.5, problem="")


def result(folder: Path, accuracy: float = 0.5) -> Result:
    return Result(paper_run=paper_run("one"), folder=leave_run(folder, accuracy), took=1.0, attempts=1)
