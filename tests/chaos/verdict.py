"""What must hold after a run among kills, freezes, outages and garbage, with figures."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.history import trace
from tests.chaos.meter import Growth
from tests.chaos.notice import Comings, Noticed
from tests.chaos.running import Seen

MOST_GROWTH = 1024.0
"""Bytes per update that the aggregator may grow by. An update leaves a kilobyte in the trace, and its model has 24:
whatever keeps one of them in memory for good is beyond it, and what the allocator does is not."""
_SHORT = 0.75
"""Of the time-out: it counts from the last heartbeat, which was before the freeze."""
LEAST_UPDATES = 5000
"""With fewer, what is loaded and cached once weighs more than anything that is left behind with every update."""


@dataclass(frozen=True, kw_only=True)
class Line:
    what: str
    measured: str
    bound: str = ""
    holds: bool | None = None
    """None: there is no bound."""


def lines(seen: Seen) -> list[Line]:
    events = seen.outcome.events
    comings = Comings(events, seen.origin)
    return [
        *_end(seen, events),
        *_books(seen, events),
        *_notice(seen, comings),
        *_memory(seen),
        *_doings(seen, comings),
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


def _books(seen: Seen, events: Sequence[trace.Event]) -> list[Line]:
    try:
        count, problem = seen.outcome.recount(), ""
    except (AssertionError, KeyError) as error:
        count, problem = {"dispatched": 0}, f"a ticket ended twice, or without a beginning: {error!r}"
    settled = {name: number for name, number in count.items() if name != "dispatched"}
    told = {name: seen.outcome.summary[name] for name in count}
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
            what="summary.json against the trace, counted anew",
            measured="the same" if told == count else f"{told}",
            bound="the same",
            holds=told == count,
        ),
        Line(what="tickets applied twice", measured=f"{twice}", bound="0", holds=twice == 0),
    ]


def _notice(seen: Seen, comings: Comings) -> list[Line]:
    timeout, slack = seen.settings.timeout * comings.dilation, seen.settings.slack
    kills = [done for done in seen.done if done.deed.do == "kill"]
    long = [done for done in seen.done if done.frozen > timeout + slack]
    short = [done for done in seen.done if 0 < done.frozen <= _SHORT * timeout]
    hasty = sum(map(comings.left_meanwhile, short))
    return [
        _timed("a killed device is missed after", comings.missed(kills, slack), slack),
        _timed(
            f"a frozen device is missed after (time-out {timeout:g} s)",
            comings.missed(long, timeout + slack),
            timeout + slack,
        ),
        _timed("… and is there again, when it thaws, after", comings.back(long, slack), slack),
        Line(
            what=f"missed of those frozen for {_SHORT * timeout:g} s or less",
            measured=f"{hasty} of {len(short)}",
            bound="0",
            holds=hasty == 0,
        ),
    ]


def _timed(what: str, noticed: Noticed, bound: float) -> Line:
    told = [f"{len(noticed.seconds)} times"]
    if noticed.seconds:
        told = [f"p50 {statistics.median(noticed.seconds):.2f} s", f"at most {max(noticed.seconds):.2f} s", *told]
    told += [f"{noticed.never} never"] * bool(noticed.never)
    told += [f"{noticed.cut_short} cut short by the end"] * bool(noticed.cut_short)
    return Line(what=what, measured=", ".join(told), bound=f"≤ {bound:g} s", holds=noticed.within(bound))


def _memory(seen: Seen) -> list[Line]:
    aggregator, applied = seen.meter.of_aggregator(), seen.outcome.summary["applied"]
    judged = applied >= LEAST_UPDATES
    found = [
        Line(
            what="the aggregator's own memory",
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
                what=f"a device's own memory (median of {len(devices)} lives)",
                measured=f"{_grown(typical, own, 'update of its own')}; the largest had {_mib(seen.meter.most)}",
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
    """What is allocated once, whenever that is, is not left behind with every update."""
    half = seen.meter.of_aggregator(0.5)
    return "" if half is None else f"; {half.slope:+.1f} B per update in the second half"


def _mib(amount: float) -> str:
    return f"{amount / (1 << 20):.1f} MiB"


def _doings(seen: Seen, comings: Comings) -> list[Line]:
    kinds, summary = Counter(done.deed.do for done in seen.done), seen.outcome.summary
    absent = sum(not comings.was_there(done) for done in seen.done)
    sent = ", ".join(f"{count:,} {kind}" for kind, count in sorted(seen.garbage.items()))
    return [
        Line(what="devices killed; started again", measured=f"{kinds['kill']}; {summary['restarts']}"),
        Line(what="devices frozen", measured=f"{kinds['freeze']}"),
        Line(what="evaluators killed", measured=f"{seen.blinded}"),
        Line(what="deeds whose victim was not there", measured=f"{seen.missed + absent}"),
        Line(what="messages that are none, sent", measured=f"{seen.garbage.total():,}: {sent}"),
        Line(what="refusals counted", measured=f"{summary['refused']:,}"),
        Line(what="updates lost, rejected", measured=f"{summary['lost']:,}, {summary['rejected']:,}"),
    ]
