"""The plan of attacks on a run, drawn from a seed: its profile with outages, and the adversary's actions."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

NAME = "chaos"
_BEAT = 0.25
_JOB_SAMPLES = 8
_SECONDS_PER_SAMPLE = 0.02
"""A job of one step takes 0.16 s: 32 devices make over a hundred updates per second, and do not fill two cores."""
_FLEET_AT_ONCE = 1 / 3
"""The largest share of the fleet that is dead or frozen at the same time."""
_KILLED_SECONDS, _THAWED_SECONDS = 5.0, 2.0
"""Host seconds for which a device is not attacked again: enough to rejoin after a first death."""
_GARBAGE = ("random", "mutated", "forged", "huge", "replayed", "flood")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one run with attacks. It ends after ``updates``, or after ``seconds``."""

    seconds: float = 400.0
    devices: int = 32
    updates: int | None = 20_000
    seed: int = 1
    timeout: float = 2.0
    slack: float = 0.6
    """The most host seconds until the aggregator checks its devices (ADR 17): it does so every 0.1 s, and at most 0.5 s
    later while updates are due."""
    every: float = 0.4
    """Mean seconds between two attacks."""

    @property
    def short_freeze(self) -> float:
        return 0.5 * self.timeout

    @property
    def long_freeze(self) -> float:
        return 1.5 * self.timeout + 1.0


@dataclass(frozen=True, kw_only=True)
class Attack:
    """``at``: seconds after time zero. ``do``: kill, freeze, blind (kill the evaluator) or a kind of garbage."""

    at: float
    do: str
    device: str = ""
    seconds: float = 0.0


def names(settings: Settings) -> list[str]:
    return [f"{NAME}-{number}" for number in range(1, settings.devices + 1)]


def profile(settings: Settings) -> dict[str, Any]:
    rng = random.Random(f"{settings.seed} profile")
    device = {"title": "a device that is in a hurry", "source": "none", "seconds_per_sample": _SECONDS_PER_SAMPLE}
    return {
        "name": NAME,
        "seed": settings.seed,
        "strategy": "fedasync",
        "task": {"name": "digits", "model": "small-cnn"},
        "training": {"steps": 1, "batch": _JOB_SAMPLES, "lr": 0.05},
        "evaluation": {"every": 1.0},
        "presence": {"heartbeat": _BEAT, "timeout": settings.timeout, "restart": "always"},
        "checkpoint": {"never": True},
        "devices": [
            {
                "profile": device,
                "link": "wifi",
                "name": NAME,
                "count": settings.devices,
                "drop": 0.02,
                "suspend": 0.01,
                "suspend_max": 1.0,
            }
        ],
        "stop": {"seconds": settings.seconds} | ({"versions": settings.updates} if settings.updates else {}),
        "events": [_outage(rng, settings) for _ in range(max(4, int(settings.seconds / 5)))],
    }


def _outage(rng: random.Random, settings: Settings) -> dict[str, Any]:
    """A link that is slow or lossy, or a suspended device, for some seconds; sometimes all links at once."""
    at, do = rng.uniform(0.5, settings.seconds), rng.choice(("rate", "drop", "suspend"))
    all_links = do != "suspend" and rng.random() < 0.1
    event = {"at": at, "do": do, "device": "*" if all_links else rng.choice(names(settings))}
    event["seconds"] = rng.uniform(0.2, 0.5 if all_links else 4.0)
    if do != "suspend":
        event["value"] = rng.uniform(0.02, 0.5) if do == "rate" else rng.uniform(0.5, 0.99)
    return event


def attacks(settings: Settings) -> list[Attack]:
    """The attacks in order. A device is not attacked while an attack lasts, or while it rejoins."""
    rng = random.Random(f"{settings.seed} deeds")
    free = dict.fromkeys(names(settings), 0.0)
    """Device → when it may be attacked again."""
    found: list[Attack] = []
    now, blind_again_at = 1.0, 0.0
    while True:
        now += rng.expovariate(1.0 / settings.every)
        if now >= settings.seconds:
            return found
        do = rng.choices(("kill", "short", "long", "blind", "garbage"), (4, 2, 2, 1, 6))[0]
        idle = [name for name, until in free.items() if until <= now]
        if do == "garbage" or len(idle) < settings.devices * (1 - _FLEET_AT_ONCE):
            found.append(Attack(at=now, do=rng.choice(_GARBAGE), device=rng.choice(names(settings))))
        elif do == "blind":
            if now >= blind_again_at:
                blind_again_at = now + 10.0
                found.append(Attack(at=now, do="blind"))
        else:
            victim = rng.choice(idle)
            seconds = {"kill": 0.0, "short": settings.short_freeze, "long": settings.long_freeze}[do]
            free[victim] = now + (seconds + _THAWED_SECONDS if seconds else _KILLED_SECONDS)
            found.append(Attack(at=now, do="kill" if do == "kill" else "freeze", device=victim, seconds=seconds))
