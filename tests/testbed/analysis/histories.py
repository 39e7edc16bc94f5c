"""Events of one device in short form, for histories that are calculated by hand.

All moments and seconds should be sums of powers of two, so that results are exact.
"""

from __future__ import annotations

from testbed.history import trace
from testbed.history.events.watts import Watts

WATTS = Watts(idle=2.0, compute=10.0, suspended=0.5, transmit=4.0, receive=1.0, source="by hand")


def joined(device: str = "a", watts: Watts | None = WATTS, at: float = 0.0) -> trace.Joined:
    return trace.Joined(t=at, device=device, pid=1, cores=[1], samples=10, watts=watts)


def sent(ticket: int, at: float = 0.0, device: str = "a", steps: int = 10) -> trace.Dispatched:
    return trace.Dispatched(t=at, device=device, ticket=ticket, version=0, steps=steps)


def download(
    ticket: int, start: float, end: float, device: str = "a", *, absent: float | None = None, dropped: bool = False
) -> trace.Downloaded:
    return trace.Downloaded(
        t=end,
        device=device,
        ticket=ticket,
        job=0,
        attempt=0,
        sent=start,
        asked=end - start,
        obtained=end - start,
        bytes=1000,
        dropped=dropped,
        absent=absent,
    )


def upload(
    ticket: int, start: float, end: float, device: str = "a", *, absent: float | None = None, dropped: bool = False
) -> trace.Uploaded:
    return trace.Uploaded(
        t=end,
        device=device,
        ticket=ticket,
        job=0,
        attempt=0,
        sent=start,
        asked=end - start,
        obtained=end - start,
        bytes=100,
        dropped=dropped,
        absent=absent,
    )


def trained(ticket: int, end: float, seconds: float, device: str = "a") -> trace.Trained:
    return trace.Trained(
        t=end, device=device, ticket=ticket, steps=10, asked=seconds, obtained=seconds, checks=0, misses=[]
    )


def abandoned(ticket: int, end: float, seconds: float, device: str = "a") -> trace.Abandoned:
    return trace.Abandoned(t=end, device=device, ticket=ticket, steps=1, seconds=seconds, checks=0, misses=[])


def suspended(ticket: int, start: float, end: float, device: str = "a", *, away: bool = False) -> trace.Suspended:
    return trace.Suspended(t=end, device=device, ticket=ticket, asked=end - start, obtained=end - start, away=away)


def scripted(do: str, at: float, device: str = "a") -> trace.Scripted:
    return trace.Scripted(t=at, device=device, do=do)


def made(version: int, at: float, *tickets: int, weights: list[float | None] | None = None) -> trace.Aggregated:
    """A version of new updates, all based on the previous version."""
    return trace.Aggregated(
        t=at,
        version=version,
        tickets=list(tickets),
        weights=weights or [1.0] * len(tickets),
        staleness=[0] * len(tickets),
    )


def scored(version: int, at: float, accuracy: float) -> trace.Scored:
    return trace.Scored(t=at + 0.5, version=version, made=at, metrics={"accuracy": accuracy})


def stopped(at: float) -> trace.Stopped:
    return trace.Stopped(t=at, reason="over", version=0, in_flight=0)
