"""``run_testbed.py verify``: recompute runs, and print whether they are as recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.analysis import trace_reading
from testbed.cli import options
from testbed.common.console import TerminalConsole, say
from testbed.common.errors import UserError
from testbed.common.json_text import json_text
from testbed.common.terminal import plain_text
from testbed.execution import live_progress
from testbed.verification.verification_result import Verification
from testbed.verification.verifying import verify

_DEPARTS, _IMPOSSIBLE = 1, 2
_HASH_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    runs: tuple[Path, ...]
    all: bool
    data_dir: Path | None
    format: str


def verify_runs(given: VerifyOptions) -> int:
    options.use_data_dir(given.data_dir)
    places = list(_runs_below(given.runs)) if given.all else list(given.runs)
    if not places:
        raise UserError("there is no run in these folders; runs are in runs/, or in the folder of --out")
    results: list[Verification] = []
    problems: dict[str, str] = {}
    for number, place in enumerate(places, 1):
        try:
            result = _verified(place, f"{number} of {len(places)}, " if len(places) > 1 else "")
        except UserError as error:
            problems[str(place)] = str(error)
            plain_text.show_error(str(error))
            continue
        results.append(result)
        if given.format == "text":
            say(TerminalConsole(), in_words(result))
    if given.format == "json":
        plain_text.show_json(json_text({"runs": results, "impossible": problems}))
    if any(result.departure is not None for result in results):
        return _DEPARTS
    return _IMPOSSIBLE if problems else 0


def _verified(place: Path, prefix: str) -> Verification:
    with live_progress.progress(TerminalConsole(stderr=True), f"{prefix}{place}", quiet=False) as show:
        return verify(place, lambda done, total: show(done / max(1, total)))


def _runs_below(places: Iterable[Path]) -> Iterator[Path]:
    """The run folders among these places, and below them."""
    for place in places:
        if place.is_dir():
            found = {place, *(path.parent for path in place.rglob("profile.toml"))}
            yield from sorted(path for path in found if trace_reading.has_trace(path))


def in_words(result: Verification) -> str:
    """The result as one line."""
    if result.departure is not None:
        there = f" ({'; '.join(result.notes)})" if result.notes else ""
        return f"{result.run}: departs at {result.departure}{there}"
    counts = f"{result.strategy}, {result.versions} versions, {result.updates} updates computed again"
    notes = "".join(f"; {note}" for note in result.notes)
    if result.verdict == "verified":
        return f"{result.run}: verified: {counts}, model {result.model[:_HASH_DIGITS]}{notes}"
    largest = "unknown" if result.largest_difference is None else f"{result.largest_difference:.3g}"
    return f"{result.run}: close: {counts}; largest difference of the final model: {largest}{notes}"


COMMAND = options.command(VerifyOptions, verify_runs)
