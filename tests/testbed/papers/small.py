"""A paper of two rules on embedded data, and a runner that does not run, for tests of what is around it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

from testbed.papers.framework.chapter import Chapter, ChapterTable, ClaimRow, ClaimVerdict, PaperFigure
from testbed.papers.framework.job import PaperRun
from testbed.papers.framework.paper import Chosen, Paper
from testbed.papers.framework.result import Result, Results
from testbed.papers.framework.search import Search
from testbed.sweep.runner import Ended, Runner


def _searched(value: float) -> list[PaperRun]:
    return [job(f"search-{value:g}", seed=101, settings={"training.lr": value, "dilation": 1.0})]


def job(name: str, **more: object) -> PaperRun:
    given: dict[str, object] = {
        "profile": "quickstart.toml",
        "seed": 1,
        "settings": {"stop.seconds": 1, "dilation": 1.0},
    }
    return PaperRun(name=name, **(given | more))  # type: ignore[arg-type]


def jobs(chosen: Chosen) -> list[PaperRun]:
    lr = {"training.lr": chosen["rate"], "stop.seconds": 1, "dilation": 1.0}
    found = []
    for seed in (1, 2, 3):
        found.append(job(f"fedasync-{seed}", seed=seed, strategy="fedasync", settings=lr))
        found.append(job(f"fedbuff-{seed}", seed=seed, strategy="fedbuff", settings=lr, replays=f"fedasync-{seed}"))
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
        grids=[ChapterTable(title="All of it", header=("a", "b"), lines=[("1", "2")])],
        pictures=[
            PaperFigure(name="line", caption="A line", draw=lambda figure: figure.subplots().plot([1, 2], [3, 4]))
        ],
    )


PAPER = Paper(
    name="small",
    title="A small paper",
    citation="Nobody 2026",
    searches=(
        Search(
            name="rate",
            key="training.lr",
            values=(0.1, 0.2, 0.4),
            jobs=_searched,
            measure="final accuracy",
            score=lambda found: fmean(result.final() for result in found),
        ),
    ),
    jobs=jobs,
    chapter=chapter,
)


def leave_run(folder: Path, accuracy: float = 0.5, verdict: str = "PASS") -> Path:
    """What a run leaves, as far as papers look at it."""
    run = folder / "quickstart-20260101-000000"
    run.mkdir(parents=True)
    (run / "summary.json").write_text(json.dumps({"fidelity": {"verdict": verdict}}), encoding="utf-8")
    lines = ["time_s,version,accuracy,joules", "0,0,0.1,0", f"1,10,{accuracy},", f"2,20,{accuracy - 0.1:.3f},9"]
    (run / "metrics.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return run


class Stand(Runner):
    """In place of the runner: notes who is to be run, and leaves what ``becomes`` says of the n-th one."""

    def __init__(self, becomes: Callable[[str, int], str] = lambda name, number: "PASS") -> None:
        super().__init__()
        self.ran: list[str] = []
        self.words: list[list[str]] = []
        self._becomes = becomes

    def run(self, words: Sequence[str], out: Path, told: Callable[[float], None]) -> Ended:
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
    return Result(job=job("one"), folder=leave_run(folder, accuracy), took=1.0, attempts=1)
