"""The tables of a report: a run as rows of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from testbed.analysis import energy
from testbed.history.trace import Header
from testbed.report.content.report_data import RunData
from testbed.report.content.wording import UNKNOWN, joules, number, plural, seconds, share, size
from testbed.runs.results.replay_result import ReplayCertificate
from testbed.runs.results.summary import RoundSums, Summary

_MOST_REASONS = 5
"""Reasons of refusals that are shown."""
NO_POWER_MODEL = "no power model"


class KeyFigure(NamedTuple):
    """One of the key figures."""

    name: str
    value: str
    more: str = ""


class TableCell(NamedTuple):
    """A cell of the table of devices: the text, and the key that the page sorts by."""

    text: str
    order: str


class Table(NamedTuple):
    """A table of a section; all cells are text."""

    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


class Column(NamedTuple):
    title: str
    cells: list[TableCell]
    is_text: bool = False


_VIRTUAL = "virtual: all moments are computed, and nothing was measured"


def facts(run: RunData) -> list[tuple[str, str]]:
    """What was run."""
    header, summary = run.header, run.summary
    host = f", {seconds(summary.host_seconds)} on the host (dilation {number(run.total.dilation)})"
    dilated = "" if summary.clock == "virtual" else host
    parameters = ", ".join(f"{key} {value}" for key, value in header.parameters.items())
    rows = [
        ("strategy", f"{header.strategy} ({parameters})" if parameters else header.strategy),
        ("what it does", run.description),
        ("paper", run.paper),
        ("task", run.task or "unknown: there is no profile.toml beside the trace"),
        ("about the task", _about_task(run)),
        ("seed", _seeds(header)),
        ("devices", number(summary.devices)),
        ("compressed updates", _compression(run)),
        ("time", f"{seconds(summary.seconds)} emulated{dilated}"),
        ("clock", _VIRTUAL if summary.clock == "virtual" else ""),
        ("began", f"{header.started[:19].replace('T', ' ')} UTC on {header.host}"),
        ("resumed", _resumed(run)),
        ("restarted devices", number(summary.restarts) if summary.restarts else ""),
        ("refused", _refused(summary)),
        ("stopped", summary.stopped if run.total.stopped else "the trace has no end"),
        ("energy of the host", _host_energy(run)),
    ]
    return [(name, text) for name, text in rows if text]


def _about_task(run: RunData) -> str:
    """What a user should know about the task, as the terminal said it; empty for most tasks."""
    survey = None if run.meta is None else run.meta.calibration
    return "" if survey is None else "; ".join(survey.notes)


def _compression(run: RunData) -> str:
    """The methods of compression, and how many devices use each; empty if none does."""
    counts = Counter(device.compress_updates for device in run.total.devices.values())
    if set(counts) <= {"none"}:
        return ""
    return ", ".join(f"{method} ({plural(count, 'device')})" for method, count in counts.items())


def _resumed(run: RunData) -> str:
    """Where the run was resumed; empty if it was not."""
    moments = ", ".join(seconds(moment) for moment, _ in run.total.dilations)
    return f"from a checkpoint, at {moments}" if moments else ""


def _refused(summary: Summary) -> str:
    """How many messages and connections were refused, and the most frequent reasons; empty if none was."""
    reasons = sorted(summary.refusals.items(), key=lambda refusal: -refusal[1])
    shown = "; ".join(f"{number(count)} × {reason}" for reason, count in reasons[:_MOST_REASONS])
    more = f"; {len(reasons) - _MOST_REASONS} other reasons" if len(reasons) > _MOST_REASONS else ""
    return f"{number(summary.refused)} messages and connections: {shown}{more}" if summary.refused else ""


def _seeds(header: Header) -> str:
    """The seed of the run, and the seeds of data and model if they are set."""
    own = {"data": header.data_seed, "model": header.model_seed}
    return ", ".join([str(header.seed), *(f"{what} {seed}" for what, seed in own.items() if seed is not None)])


def _host_energy(run: RunData) -> str:
    found = run.host_energy
    return "" if found is None else f"{joules(sum(found.joules.values()))} in {seconds(found.seconds)}, {found.what}"


def key_figures(run: RunData) -> list[KeyFigure]:
    """The key figures."""
    summary = run.summary
    found = [_accuracy(summary)]
    found.append(KeyFigure("versions", number(summary.versions), f"in {seconds(summary.seconds)}"))
    fates = ("rejected", "lost", "superseded", "delivered", "in_flight")
    counts = {fate: getattr(summary, fate) for fate in fates}
    others = ", ".join(f"{number(count)} {fate.replace('_', ' ')}" for fate, count in counts.items() if count)
    dispatched = f"of {number(summary.dispatched)} dispatched"
    found.append(
        KeyFigure("updates applied", number(summary.applied), f"{dispatched}; {others}" if others else dispatched)
    )
    if summary.mean_staleness is not None:
        most = f"{summary.max_staleness} at most, in versions"
        found.append(KeyFigure("mean staleness", number(summary.mean_staleness), most))
    up, down = size(summary.bytes_up), size(summary.bytes_down)
    found.append(KeyFigure("bytes", size(summary.bytes_up + summary.bytes_down), f"{up} up, {down} down"))
    found += _energy(run)
    if (fairness := summary.contribution) is not None:
        found.append(KeyFigure("fairness", f"{fairness.jain:.3f}", f"Jain's index; Gini {fairness.gini:.3f}"))
    return found + _rounds(summary.rounds)


def _accuracy(summary: Summary) -> KeyFigure:
    """The accuracy, or the first metric of a task that has no accuracy."""
    if summary.final_accuracy is None:
        for name, value in summary.scores.items():
            span = f"from {value.lowest:.4g} to {value.highest:.4g}"
            return KeyFigure(f"final {name}", f"{value.last:.4g}", span)
        return KeyFigure("final accuracy", UNKNOWN, "no version was scored")
    return KeyFigure("final accuracy", f"{summary.final_accuracy:.3f}", f"best {summary.best_accuracy:.3f}")


def _energy(run: RunData) -> list[KeyFigure]:
    spent = run.summary.energy
    if spent is None:
        few = len(run.unpowered) < len(run.total.devices)
        more = (
            f"for {plural(len(run.unpowered), 'device')}: no joules of the fleet" if few else "so there are no joules"
        )
        return [KeyFigure("energy", NO_POWER_MODEL, more)]
    wasted, total = spent.wasted_j, spent.total_j
    per_update = f"{joules(spent.joules_per_update)} per applied update"
    return [
        KeyFigure("energy (proxy)", joules(total), per_update if spent.joules_per_update is not None else ""),
        KeyFigure("wasted energy (proxy)", joules(wasted), f"{share(wasted / total)} of all" if total else ""),
    ]


def _rounds(found: RoundSums | None) -> list[KeyFigure]:
    """The measures of Forootani and Iervolino; none if the strategy has no rounds."""
    if found is None:
        return []
    proxy = found.energy_proxy_j
    return [
        KeyFigure("rounds", number(found.count), f"Σ(max − min) {seconds(found.cumulative_delay_s)}"),
        KeyFigure("E_proxy", NO_POWER_MODEL if proxy is None else joules(proxy), "Σ P·τ of the rounds"),
    ]


def levels(run: RunData) -> list[tuple[str, str, str, str]]:
    """Accuracy, and the seconds, joules and bytes until it was reached."""
    return [
        (
            level,
            seconds(row.seconds),
            NO_POWER_MODEL if row.joules is None else joules(row.joules),
            size(row.bytes),
        )
        for level, row in run.summary.to_accuracy.items()
    ]


def replay(run: RunData) -> str:
    """How exactly a replay repeated the recorded run; empty if the run is no replay."""
    found = run.replay
    if found is None:
        missing = "there is no readable replay.json beside the trace that says how exact it was"
        return f"This run was a replay ({run.header.replay}); {missing}." if run.header.replay else ""
    text = f"not certified: {found.problem}" if found.problem else "; ".join(_compared(found))
    return f"{found.mode} replay of {found.trace}: {text}."


def _compared(found: ReplayCertificate) -> Iterator[str]:
    if found.arrivals_in_order is None:
        yield "no arrivals to compare"
    else:
        arrivals = plural(found.arrivals_common or 0, "arrival")
        yield f"{100 * found.arrivals_in_order:.1f} % of {arrivals} in the recorded order"
    for same, kept, changed in (
        (found.same_staleness, "the same sequence of staleness", "another sequence of staleness"),
        (found.same_losses, "the same local losses", "other local losses"),
        (found.same_versions, "the same number of versions", "another number of versions"),
    ):
        if same is not None:
            yield kept if same else changed
    if found.transfers_common is not None:
        differ = number(found.losses_differ) if found.losses_differ else "none"
        yield f"{differ} of {plural(found.transfers_common, 'transfer')} arrived in one run and were lost in the other"
    model = {True: "the same final model, bit by bit", False: "another final model", None: "no final model to compare"}
    yield model[found.same_model]
    yield f"{plural(found.beyond_the_recording or 0, 'delay')} beyond the recording ({found.end or 'unknown'})"


def replay_rows(run: RunData) -> list[tuple[str, str, str, str, str]]:
    """Errors of a replay: kind of delay, count, p50, p99 and maximum."""
    if run.replay is None:
        return []
    return [
        (kind, number(found.count), _ms(found.p50_s), _ms(found.p99_s), _ms(found.max_s))
        for kind, found in run.replay.delays.items()
        if found is not None
    ]


def _ms(value: float) -> str:
    return f"{1e3 * value:.3g} ms"


# ---- devices

_COUNTS = ("samples", "jobs", "applied", "rejected", "lost", "superseded", "poisoned", "drops", "missed")
_TIMES = {
    "busy_s": "computing",
    "download_s": "download",
    "upload_s": "upload",
    "waiting_s": "waiting",
    "suspended_s": "suspended",
    "dead_s": "dead",
    "idle_s": "idle",
}
_REST: dict[str, tuple[str, Callable[[Any], str]]] = {
    "mean_staleness": ("mean staleness", number),
    "contribution": ("contribution", lambda value: UNKNOWN if value is None else f"{100 * value:.1f} %"),
    "bytes_up": ("sent", size),
    "bytes_down": ("received", size),
    "energy_j": ("energy (proxy)", joules),
    "wasted_j": ("wasted (proxy)", joules),
    "last_loss": ("last local loss", number),
}


def device_columns(run: RunData) -> list[Column]:
    """The columns of the table of devices; columns without any value are left out."""
    columns = [Column("device", [TableCell(row.device, row.device) for row in run.devices], is_text=True)]
    shown: dict[str, tuple[str, Callable[[Any], str]]] = {name: (name, number) for name in _COUNTS}
    shown |= {name: (title, seconds) for name, title in _TIMES.items()}
    for name, (title, text) in (shown | _REST).items():
        values = [getattr(row, name) for row in run.devices]
        if any(values):
            cells = [TableCell(text(value), "" if value is None else f"{value:.6g}") for value in values]
            columns.append(Column("missed deadlines" if name == "missed" else title, cells))
    return columns


def energy_note(run: RunData) -> str:
    """A sentence about the energy model, or that there are no joules."""
    if len(run.unpowered) == len(run.total.devices):
        return "No device has a power model, so there are no joules."
    left_out = f" Without a power model, and left out: {plural(len(run.unpowered), 'device')}." if run.unpowered else ""
    return f"Joules are a {energy.MODEL}, not a measurement.{left_out}"
