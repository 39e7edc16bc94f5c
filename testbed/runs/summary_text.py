"""What a user reads after a run: the summary, and the certificate of its timing."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from testbed.common.console import milliseconds, say
from testbed.runs.results.certificate import Certificate
from testbed.runs.results.replay_result import ReplayCertificate
from testbed.runs.results.summary import FleetEnergy, Summary

_REASONS = 3
"""Reasons of refusals that are printed."""
_COLOURS = {"PASS": "green", "WARN": "yellow", "FAIL": "red", "not measured": "dim"}


def show(console: Console, summary: Summary, path: Path) -> None:
    """Print ``summary``, the run folder ``path``, and the certificate."""
    say(console, f"stopped: {summary.stopped}")
    host = f" ({summary.host_seconds} s on this host)" if summary.host_seconds != summary.seconds else ""
    say(console, f"{_scores(summary)} after {summary.versions} versions in {summary.seconds} s{host}")
    for line in (*_ticket_lines(summary), *_energy_lines(summary), *_special_lines(summary)):
        say(console, line)
    say(console, f"results in {path}")
    if summary.clock == "virtual":
        say(console, "virtual clock: all moments are computed, and nothing was measured")
    elif summary.fidelity is not None:
        show_certificate(console, summary.fidelity)


def _scores(summary: Summary) -> str:
    accuracy, scores = summary.final_accuracy, summary.scores
    if accuracy is not None:
        return f"accuracy {accuracy:.3f} (best {summary.best_accuracy:.3f})"
    return ", ".join(f"{name} {value.last:.4g}" for name, value in scores.items()) or "accuracy not measured"


def _ticket_lines(summary: Summary) -> list[str]:
    """Return how the tickets ended and why, restarts, and the seconds of computing."""
    ends = ("applied", "rejected", "lost", "superseded", *(["delivered"] if summary.final_model else []))
    account = " + ".join(f"{getattr(summary, key)} {key}" for key in (*ends, "in_flight"))
    lines = [f"{summary.dispatched} dispatched = {account}"]
    lines += [f"  {count} {reason}" for reason, count in summary.reasons.items()]
    if summary.clipped:
        lines.append(f"{summary.clipped} updates were scaled down to aggregator.clip")
    if (found := summary.out_of_range) is not None:
        norm = "not finite" if found.norm is None else f"{found.norm:.2g}"
        cause = f", after an update of {found.device}" if found.device else ""
        remedy = "lower training.lr, or set aggregator.clip"
        lines.append(f"the model is out of range since version {found.version}{cause} (norm {norm}): {remedy}")
    again = {"restarted devices": summary.restarts, "times resumed": summary.resumed}
    if any(again.values()):
        lines.append(", ".join(f"{count} {what}" for what, count in again.items() if count))
    if summary.refused:
        lines.append(f"refused: {summary.refused} messages and connections; {_most_frequent(summary.refusals)}")
    if (computing := summary.computing) is not None:
        asked, obtained = computing.asked_s, computing.obtained_s
        ratio = f" ({obtained / asked:.3f}×)" if asked else ""
        lines.append(f"computing: asked {asked} s, obtained {obtained} s{ratio}")
    return lines


def _most_frequent(refusals: dict[str, int]) -> str:
    """Return the most frequent reasons of refusals."""
    most = sorted(refusals.items(), key=lambda refusal: -refusal[1])
    more = [f"{len(most) - _REASONS} other reasons in summary.json"] if len(most) > _REASONS else []
    return "; ".join([*(f"{count} × {reason}" for reason, count in most[:_REASONS]), *more])


def _energy_lines(summary: Summary) -> list[str]:
    """Return joules of the fleet by its power models, costs up to an accuracy, and joules that the host measured."""
    lines = [] if summary.energy is None else [_proxy(summary.energy)]
    reached, target = summary.to_accuracy, summary.target_accuracy
    levels = {*list(reached)[-1:], *([] if target is None else [f"{target:g}"])}
    for level in [level for level in reached if level in levels]:
        cost = reached[level]
        joules = "" if cost.joules is None else f" {_figure(cost.joules)} J (proxy),"
        lines.append(f"to accuracy {level}: {cost.seconds:.1f} s,{joules} {_figure(cost.bytes / 1e6)} MB")
    if (host := summary.host_energy) is not None:
        joules = _figure(sum(host.joules.values()))
        lines.append(f"host: {joules} J in {host.seconds:.1f} s (RAPL, measured; whole packages)")
    return lines


def _proxy(energy: FleetEnergy) -> str:
    total, wasted, each = energy.total_j, energy.wasted_j, energy.joules_per_update
    line = f"energy (proxy): {_figure(total)} J"
    if wasted:
        fates = sorted(energy.wasted_by_fate_j.items(), key=lambda fate: -fate[1])
        line += f", of which {_figure(wasted)} J ({wasted / total:.1%}) wasted: "
        line += ", ".join(f"{fate} {_figure(joules)}" for fate, joules in fates)
    return line if each is None else f"{line}; {_figure(each)} J per update"


def _figure(number: float) -> str:
    """Return three significant figures, or all digits before the point if there are more."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _special_lines(summary: Summary) -> list[str]:
    """Return what only some runs have: abandoned jobs, rounds, a final model on devices, a replay, a torn trace."""
    lines = []
    if summary.superseded and summary.abandoned_s:
        lines.append(f"abandoned: {summary.abandoned_s} s of computing, discarded for a newer model")
    if (rounds := summary.rounds) is not None:
        proxy, ours = (
            "no joules without power models" if joules is None else f"{joules} J (proxy)"
            for joules in (rounds.energy_proxy_j, summary.energy_j)
        )
        lines.append(
            f"rounds: {rounds.count}, Σ(max − min) {rounds.cumulative_delay_s} s of {summary.seconds} s,"
            f" Σ P·τ {proxy}; the whole fleet: {ours}"
        )
    if (final := summary.final_model) is not None:
        lines.append(f"final model: on {final.on} of {final.of} devices, {final.seconds} s after the end")
    if (replay := summary.replay) is not None:
        lines += _replay_lines(replay)
    if (line := summary.torn_line) is not None:
        lines.append(f"note: the last line ({line}) of trace.jsonl is torn, as a crash leaves it; it is left out")
    return lines


def _replay_lines(replay: ReplayCertificate) -> list[str]:
    """Return how exactly a replay repeated the recorded run."""
    if replay.problem is not None:
        return [f"replay ({replay.mode}): not certified: {replay.problem}"]
    delays, share = replay.delays["all"], replay.arrivals_in_order
    lines = [f"replay ({replay.mode}) of {replay.trace}:"]
    if delays is not None:
        off = f"p50 {milliseconds(delays.p50_s)}, p99 {milliseconds(delays.p99_s)}"
        beyond = f"{replay.beyond_the_recording} beyond the recording ({replay.end})"
        lines.append(f"  {delays.count} delays off by {off}; {beyond}")
    if differ := replay.losses_differ:
        common = replay.transfers_common
        lines.append(f"  {differ} of {common} transfers arrived in one run and were lost in the other")
    order = "none to compare" if share is None else f"{share:.1%} of {replay.arrivals_common} in the recorded order"
    same = "the same" if replay.same_staleness else "another"
    model = {True: "the same final model", False: "another final model", None: "no model to compare"}
    lines.append(f"  arrivals: {order}; {same} sequence of staleness; {model[replay.same_model]}")
    return lines


def show_certificate(console: Console, fidelity: Certificate) -> None:
    """Print the verdict, and every invariant that did not pass."""
    verdict = fidelity.verdict
    passed = sum(line.verdict == "PASS" for line in fidelity.invariants)
    console.print(
        Text.assemble(
            "fidelity: ",
            (verdict, f"bold {_COLOURS[verdict]}"),
            f" ({passed} of {len(fidelity.invariants)} invariants hold; fidelity.json has the figures)",
        ),
        soft_wrap=True,
    )
    for line in fidelity.invariants:
        if line.verdict != "PASS":
            worst = line.worst
            named = f"; worst: {worst}" if worst is not None and worst not in line.found else ""
            limits = f" [{line.limits}]" if line.verdict in ("WARN", "FAIL") else ""
            mark = (line.verdict, _COLOURS[line.verdict])
            text = f" {line.name}: {line.found}{named}{limits}"
            console.print(Text.assemble("  ", mark, text), soft_wrap=True)
