"""What holds for the programme of every paper."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.papers.framework.job import PaperRun
from testbed.papers.framework.paper import Paper


def chosen(paper: Paper) -> dict[str, float]:
    """As if nothing had been searched yet."""
    return {search.name: search.chosen({}) for search in paper.searches}


def check(paper: Paper) -> None:
    """Loadable, with names of their own, recordings first, and nothing searched on a seed that is reported."""
    reported = paper.jobs(chosen(paper))
    searched = [job for search in paper.searches for job in search.all_jobs()]
    assert len({job.seed for job in reported}) >= 3
    assert not {job.seed for job in reported} & {job.seed for job in searched}
    for jobs in (reported, searched):
        _check_order(jobs)
        for job in jobs:
            loads(job)
    names = [job.name for job in (*reported, *searched)]
    assert len(names) == len(set(names))


def loads(job: PaperRun) -> None:
    experiment = job.experiment()
    assert experiment.seed == job.seed
    assert isinstance(experiment.dilation, float), "auto differs from run to run"


def _check_order(jobs: Sequence[PaperRun]) -> None:
    before: dict[str, PaperRun] = {}
    for job in jobs:
        if job.replays:
            assert before[job.replays].seed == job.seed
        before[job.name] = job
