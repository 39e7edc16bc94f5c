"""What must hold after a run with kills, freezes, outages and garbage, with figures."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.history import trace
from tests.chaos.meter import Growth
from tests.chaos.notice import Noticed, PresenceTimes
from tests.chaos.running import Seen
from tests.live.runs import Outcome

MOST_GROWTH = 1024.0
"""Bytes per update by which the aggregator may grow. An update adds a kilobyte to the trace, and its model has 24: a
leak of either exceeds the bound, effects of the allocator do not."""
_SHORT = 0.75
"""Share of the timeout, which counts from the last heartbeat, before the freeze."""
LEAST_UPDATES = 5000
"""With fewer, memory that is allocated once outweighs a leak per update."""


@dataclass(frozen=True, kw_only=True)
class Line:
    what: str
    measured: str
    bound: str = ""
    holds: bool | None = None
    """None: there is no bound."""


def lines(seen: Seen) -> list[Line]:
    events = seen.outcome.events
    presence = PresenceTimes(events, seen.origin)
    return [
        *_end(seen, events),
        *accounts(seen.outcome),
        *_notice(seen, presence),
        *_memory(seen),
        *_attacks(seen, presence),
    ]


def _end(seen: Seen, events: Sequence[trace.Event]) -> list[Line]:
    reasons = [event.reason for event in events if isinstance(event, trace.Stopped)]
    ended = f"exit code {seen.outcome.code}; {' and '.join(reasons) or 'no reason'}"
    wanted = seen.settings.updates
    applied, left = seen.outcome.summary["applied"], seen.leftovers
    return [
        Line(
            what="the run ends by itself",
            measured=ended,
            bound="0, one reason",
            holds=seen.outcome.code == 0 and len(reasons) == 1 and not seen.interrupted,
        ),
        Line(what="processes, sockets, memory left behind", measured=left or "none", bound="none", holds=not left),
        Line(
            what="updates",
            measured=f"{applied:,} in {seen.seconds:.0f} s, {applied / seen.seconds:.0f} a second",
            bound=f"≥ {wanted:,}" if wanted else "",
            holds=applied >= wanted if wanted else None,
        ),
    ]


def accounts(outcome: Outcome) -> list[Line]:
    """Whether every ticket ended exactly once, and the summary agrees with the trace."""
    events = outcome.events
    try:
        count, problem = outcome.recount(), ""
    except (AssertionError, KeyError) as error:
        count, problem = {"dispatched": 0}, f"a ticket ended twice, or without a beginning: {error!r}"
    settled = {name: number for name, number in count.items() if name != "dispatched"}
    summary = {name: outcome.summary[name] for name in count}
    applied = Counter(ticket for event in events if isinstance(event, trace.Aggregated) for ticket in event.tickets)
    twice = sum(times > 1 for times in applied.values())
    figures = " + ".join(f"{number:,} {name}" for name, number in settled.items() if number)
    return [
        Line(
            what="conservation",
            measured=problem or f"{count['dispatched']:,} dispatched = {figures}",
            bound="exactly",
            holds=not problem and sum(settled.values()) == count["dispatched"],
        ),
        Line(
            what="summary.json compared with a recount of the trace",
            measured="the same" if summary == count else f"{summary}",
            bound="the same",
            holds=summary == count,
        ),
        Line(what="tickets applied twice", measured=f"{twice}", bound="0", holds=twice == 0),
    ]


def _notice(seen: Seen, presence: PresenceTimes) -> list[Line]:
    timeout, slack = seen.settings.timeout * presence.dilation, seen.settings.slack
    kills = [done for done in seen.done if done.attack.do == "kill"]
    long = [done for done in seen.done if done.frozen > timeout + slack]
    short = [done for done in seen.done if 0 < done.frozen <= _SHORT * timeout]
    hasty = sum(map(presence.left_meanwhile, short))
    return [
        _timed("a killed device is missed after", presence.missed(kills, slack), slack),
        _timed(
            f"a frozen device is missed after (time-out {timeout:g} s)",
            presence.missed(long, timeout + slack),
            timeout + slack,
        ),
        _timed("… and is present again after its thaw within", presence.back(long, slack), slack),
        Line(
            what=f"devices frozen for {_SHORT * timeout:g} s or less that were missed",
            measured=f"{hasty} of {len(short)}",
            bound="0",
            holds=hasty == 0,
        ),
    ]


def _timed(what: str, noticed: Noticed, bound: float) -> Line:
    parts = [f"{len(noticed.seconds)} times"]
    if noticed.seconds:
        parts = [f"p50 {statistics.median(noticed.seconds):.2f} s", f"at most {max(noticed.seconds):.2f} s", *parts]
    parts += [f"{noticed.never} never"] * bool(noticed.never)
    parts += [f"{noticed.cut_short} cut short by the end"] * bool(noticed.cut_short)
    return Line(what=what, measured=", ".join(parts), bound=f"≤ {bound:g} s", holds=noticed.within(bound))


def _memory(seen: Seen) -> list[Line]:
    aggregator, applied = seen.meter.of_aggregator(), seen.outcome.summary["applied"]
    judged = applied >= LEAST_UPDATES
    found = [
        Line(
            what="unique memory of the aggregator",
            measured=f"{_grown(aggregator, 1.0, 'update')}{_lately(seen)}",
            bound=f"≤ {MOST_GROWTH:g} B per update" if judged else "",
            holds=(aggregator is not None and aggregator.slope <= MOST_GROWTH) if judged else None,
        )
    ]
    devices = seen.meter.of_devices()
    if devices:
        own = applied / seen.settings.devices / seen.seconds  # updates of one device in a second
        middle = statistics.median_low(each.slope for each in devices)
        typical = next(each for each in devices if each.slope == middle)
        found.append(
            Line(
                what=f"unique memory of a device (median of {len(devices)} processes)",
                measured=f"{_grown(typical, own, 'own update')}; the largest had {_mib(seen.meter.most)}",
            )
        )
    return found


def _grown(growth: Growth | None, per: float, unit: str) -> str:
    if growth is None:
        return "too few samples"
    return (
        f"{growth.slope / per:+.1f} B per {unit}, {growth.total / 1024:+,.0f} KiB in all"
        f" ({_mib(growth.first)} to {_mib(growth.last)})"
    )


def _lately(seen: Seen) -> str:
    """The growth in the second half: memory that is allocated once is not a leak per update."""
    half = seen.meter.of_aggregator(0.5)
    return "" if half is None else f"; {half.slope:+.1f} B per update in the second half"


def _mib(amount: float) -> str:
    return f"{amount / (1 << 20):.1f} MiB"


def _attacks(seen: Seen, presence: PresenceTimes) -> list[Line]:
    kinds, summary = Counter(done.attack.do for done in seen.done), seen.outcome.summary
    absent = sum(not presence.was_there(done) for done in seen.done)
    sent = ", ".join(f"{count:,} {kind}" for kind, count in sorted(seen.garbage.items()))
    return [
        Line(what="devices killed; restarted", measured=f"{kinds['kill']}; {summary['restarts']}"),
        Line(what="devices frozen", measured=f"{kinds['freeze']}"),
        Line(what="evaluators killed", measured=f"{seen.evaluators_killed}"),
        Line(what="attacks whose victim was absent", measured=f"{seen.missed + absent}"),
        Line(what="invalid messages sent", measured=f"{seen.garbage.total():,}: {sent}"),
        Line(what="refusals counted", measured=f"{summary['refused']:,}"),
        Line(what="updates lost, rejected", measured=f"{summary['lost']:,}, {summary['rejected']:,}"),
    ]
