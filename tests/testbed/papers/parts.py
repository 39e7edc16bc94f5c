"""Checks that hold for the programme of every paper."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.papers.framework.paper import Paper
from testbed.papers.framework.paper_run import PaperRun


def chosen(paper: Paper) -> dict[str, float]:
    """The values before any search is finished."""
    return {search.name: search.chosen({}) for search in paper.searches}


def check(paper: Paper) -> None:
    """Runs load, have unique names, come after their recordings, and no search uses a reported seed."""
    reported = paper.paper_runs(chosen(paper))
    searched = [paper_run for search in paper.searches for paper_run in search.all_runs()]
    assert len({paper_run.seed for paper_run in reported}) >= 3
    assert not {paper_run.seed for paper_run in reported} & {paper_run.seed for paper_run in searched}
    for paper_runs in (reported, searched):
        _check_order(paper_runs)
        for paper_run in paper_runs:
            loads(paper_run)
    names = [paper_run.name for paper_run in (*reported, *searched)]
    assert len(names) == len(set(names))


def loads(paper_run: PaperRun) -> None:
    experiment = paper_run.experiment()
    assert experiment.seed == paper_run.seed
    assert isinstance(experiment.dilation, float), "auto differs from run to run"


def _check_order(paper_runs: Sequence[PaperRun]) -> None:
    before: dict[str, PaperRun] = {}
    for paper_run in paper_runs:
        if paper_run.replays:
            assert before[paper_run.replays].seed == paper_run.seed
        before[paper_run.name] = paper_run
