"""``docs/papers.md``: one section for each paper. Writing some sections leaves the others unchanged."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from matplotlib.figure import Figure

from testbed.papers.all_papers import PAPERS
from testbed.papers.framework.chapter import Chapter, ClaimRow, ClaimVerdict
from testbed.papers.framework.result import Result
from testbed.papers.programme import ATTEMPTS, Programme
from testbed.report.figures import style
from testbed.sweeps.sweep_progress import duration

_HEAD = f"""\
# The papers' experiments: what they print, what we measured

Written by `make papers` (`make papers PAPER=asyncfeded`: one of them), which runs the `small` experiments in
[profiles/experiments](../profiles/experiments) with real processes, in real time, one run after another. After an
interruption, the same command continues. The experiments at the papers' own settings are beside the small ones:
`run_testbed.py run audg/iid.toml`.

- **agrees**: the claim of the paper holds here. **agrees in direction**: the order or the sign is the same, the size is
  not. **does not agree**: with the reason, as far as we found it. **not tested at this scale**: the small experiment
  cannot show it.
- Figures are means over seeds, with their range in brackets. Seconds are emulated unless stated otherwise.
  Joules are a proxy.
- Verdicts are computed from the measured figures. Settings that a paper does not print were searched for, with the
  same number of values for each strategy, on seeds that are not reported.
- Each run has a fidelity certificate. A run with FAIL is repeated, {ATTEMPTS} attempts in all; the tables count
  the certificates of the last attempts.
- Unless a section says otherwise, compared strategies met the same delays: one was recorded, the others replayed
  it.
"""
_SECTION = re.compile(r"<!-- begin (\w+) (\{.*?\}) -->\n(.*?)<!-- end \1 -->\n", re.DOTALL)


class PaperFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a paper in the overview. The document stores them, for papers that are not run the next time."""

    title: str
    verdicts: dict[str, int]
    """Verdict → claims."""
    runs: int
    host_seconds: int
    cores: int | None
    """Cores of the host; None if they are not known."""
    certificates: dict[str, int]
    """Verdict of a certificate → runs."""


def write(document: Path, programmes: Sequence[Programme]) -> None:
    sections = _stored(document)
    for programme in programmes:
        chapter = programme.paper.chapter(programme.results, programme.chosen)
        _draw(document, programme.paper.name, chapter)
        sections[programme.paper.name] = (_facts(programme, chapter), "\n".join(_section(programme, chapter)) + "\n")
    written = {name: sections[name] for name in PAPERS if name in sections}
    parts = [_HEAD, *_overview({name: facts for name, (facts, _) in written.items()}), ""]
    for name, (facts, text) in written.items():
        stored = json.dumps(msgspec.to_builtins(facts))
        parts.append(f"<!-- begin {name} {stored} -->\n{text}<!-- end {name} -->\n")
    document.write_text("\n".join(parts), encoding="utf-8")


def _stored(document: Path) -> dict[str, tuple[PaperFacts, str]]:
    text = document.read_text(encoding="utf-8") if document.is_file() else ""
    return {name: (msgspec.json.decode(facts, type=PaperFacts), body) for name, facts, body in _SECTION.findall(text)}


def _facts(programme: Programme, chapter: Chapter) -> PaperFacts:
    return PaperFacts(
        title=programme.paper.title,
        verdicts=dict(Counter(row.verdict.value for row in chapter.rows)),
        runs=len(programme.results),
        host_seconds=round(programme.host_seconds),
        cores=os.cpu_count(),
        certificates=dict(Counter(result.fidelity for result in programme.results.values())),
    )


def _overview(facts: Mapping[str, PaperFacts]) -> Iterator[str]:
    verdicts = [verdict.value for verdict in ClaimVerdict]
    yield from _table(
        ("paper", *verdicts, "runs", "certificates", "time on this host"),
        [
            (
                f"[{fact.title}](#{name})",
                *(str(fact.verdicts.get(verdict, "")) for verdict in verdicts),
                str(fact.runs),
                _counted(fact.certificates),
                duration(fact.host_seconds),
            )
            for name, fact in facts.items()
        ],
    )
    total = duration(sum(fact.host_seconds for fact in facts.values()))
    cores = ", ".join(sorted({str(fact.cores) for fact in facts.values()}))
    absent = [f"{paper.title} (`make papers PAPER={name}`)" for name, paper in PAPERS.items() if name not in facts]
    what = "The runs of these" if absent else "`make papers`"
    yield f"\n{what} took **{total}** in all, on a host of {cores} cores."
    if absent:
        yield f"\nNot measured yet: {'; '.join(absent)}."


def _section(programme: Programme, chapter: Chapter) -> Iterator[str]:
    paper, results = programme.paper, programme.results
    yield f'<a id="{paper.name}"></a>\n\n## {paper.title}\n\n{paper.citation}\n\n{chapter.setting}\n'
    yield from _table(
        ("", "paper", "measured", "verdict", "why"),
        [(row.where, row.claim, row.ours, f"**{row.verdict}**", _why(programme, row)) for row in chapter.rows],
    )
    for paper_figure in chapter.figures:
        yield f"\n![{paper_figure.caption}](papers/{paper.name}-{paper_figure.name}.png)\n\n*{paper_figure.caption}*"
    for table in chapter.tables:
        yield f"\n**{table.title}**\n"
        yield from _table(table.header, table.lines)
    yield from _searches(programme)
    yield from _runs(programme, list(results.values()))


def _why(programme: Programme, row: ClaimRow) -> str:
    if row.verdict is ClaimVerdict.MISSING and row.data in programme.missing:
        return f"the data set {row.data} is missing: {_remedy(programme, row.data)}"
    return row.reason


def _remedy(programme: Programme, data: str) -> str:
    return f"put its files into FOLDER/{data} and run `EDGEBED_DATA=FOLDER make papers PAPER={programme.paper.name}`"


def _searches(programme: Programme) -> Iterator[str]:
    searches = programme.paper.searches
    if not searches:
        return
    seeds = sorted({paper_run.seed for paper_run in programme.search_runs()})
    yield f"\n**Searched for**, on seeds {_listed(seeds)}; the best is used:\n"
    lines = []
    for search in searches:
        scores, chosen = search.scores(programme.results), search.chosen(programme.results)
        tried = ", ".join(
            f"**{value:g}: {scores[value]:.4g}**" if value == chosen else f"{value:g}: {scores[value]:.4g}"
            for value in scores
        )
        lines.append((search.name, f"`{search.key}`", tried or "not run", search.measure))
    yield from _table(("for", "key", "tried: score", "score"), lines)
    at_an_end = [search.name for search in searches if search.is_at_an_end(programme.results)]
    if at_an_end:
        yield (
            "\nThe best value is the first or the last one tried, so that a better one may be beyond it:"
            f" {', '.join(at_an_end)}."
        )


def _runs(programme: Programme, results: Sequence[Result]) -> Iterator[str]:
    paper_runs = programme.paper.paper_runs(programme.chosen)
    certificates = _counted(Counter(result.fidelity for result in results))
    repeated = sum(result.attempts > 1 for result in results)
    seeds = _listed(sorted({paper_run.seed for paper_run in paper_runs}))
    yield (
        f"\n**Runs.** `make papers PAPER={programme.paper.name}`: {len(results)} runs, reported seeds {seeds},"
        f" {duration(programme.host_seconds)} on this host; certificates: {certificates or 'none'}"
        + (f"; repeated because of their certificates: {repeated}." if repeated else ".")
    )
    example = next((paper_run for paper_run in paper_runs if paper_run.replays), paper_runs[0])
    recording = " --replay=RUN" if example.replays else ""
    yield f"One of them by hand: `run_testbed.py {shlex.join(example.words())}{recording}`."
    for name in programme.missing:
        yield (
            f"\nOmitted, because the data set {name} is missing: {_remedy(programme, name)}; with a network, the same"
            " command without EDGEBED_DATA downloads the data sets that are freely available. `run_testbed.py list"
            " tasks -v` names their sources."
        )
    if programme.failed:
        yield f"\nFailed: {'; '.join(f'{name} ({reason})' for name, reason in programme.failed.items())}."


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"| {' | '.join('---' for _ in header)} |"
    for line in lines:
        yield f"| {' | '.join(cell.replace('|', '∣') for cell in line)} |"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {counts[name]}" for name in ("PASS", "WARN", "FAIL") if counts.get(name))


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def _draw(document: Path, name: str, chapter: Chapter) -> None:
    folder = document.parent / "papers"
    folder.mkdir(parents=True, exist_ok=True)
    with style.style():
        for paper_figure in chapter.figures:
            figure = Figure(figsize=(style.FULL_WIDTH, style.HEIGHT), layout="constrained", facecolor="white")
            paper_figure.draw(figure)
            figure.savefig(folder / f"{name}-{paper_figure.name}.png", dpi=110, facecolor="white")
