"""What a run meets, drawn from a seed before it begins: its profile with outages, and what the adversary does when."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

NAME = "chaos"
_BEAT = 0.25
_JOB_SAMPLES = 8
_SECONDS_PER_SAMPLE = 0.02
"""A job of one step takes 0.16 s: 32 devices make more than a hundred updates a second, and leave two cores room."""
_FLEET_AT_ONCE = 1 / 3
"""Of the fleet, no more is dead or frozen at a time: or a run would be about that only."""
_KILLED_SECONDS, _THAWED_SECONDS = 5.0, 2.0
"""Host seconds for which a device is left alone after that: until it is there again, if this was its first death."""
_GARBAGE = ("random", "mutated", "forged", "huge", "replayed", "flood")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Of one run among an adversary's doings. It ends after so many updates, or so many seconds."""

    seconds: float = 400.0
    devices: int = 32
    updates: int | None = 20_000
    seed: int = 1
    timeout: float = 2.0
    slack: float = 0.6
    """Host seconds after which at the latest the aggregator looks after its devices, as ADR 17 states: it does so every
    0.1 s, and while updates are due no later than 0.5 s after that."""
    every: float = 0.4
    """Mean seconds from one deed to the next."""

    @property
    def short_freeze(self) -> float:
        return 0.5 * self.timeout

    @property
    def long_freeze(self) -> float:
        return 1.5 * self.timeout + 1.0


@dataclass(frozen=True, kw_only=True)
class Deed:
    """``at``: seconds after time zero. ``do``: kill, freeze, blind (the evaluator) or a kind of garbage."""

    at: float
    do: str
    device: str = ""
    seconds: float = 0.0


def names(settings: Settings) -> list[str]:
    return [f"{NAME}-{number}" for number in range(1, settings.devices + 1)]


def profile(settings: Settings) -> dict[str, Any]:
    dice = random.Random(f"{settings.seed} profile")
    device = {"title": "a device that is in a hurry", "source": "none", "seconds_per_sample": _SECONDS_PER_SAMPLE}
    return {
        "name": NAME,
        "seed": settings.seed,
        "strategy": "fedasync",
        "task": {"name": "digits", "model": "small-cnn"},
        "training": {"steps": 1, "batch": _JOB_SAMPLES, "lr": 0.05},
        "evaluation": {"every": 1.0},
        "presence": {"beat": _BEAT, "timeout": settings.timeout, "restart": "always"},
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
        "events": [_outage(dice, settings) for _ in range(max(4, int(settings.seconds / 5)))],
    }


def _outage(dice: random.Random, settings: Settings) -> dict[str, Any]:
    """A link that is slow or lossy, or a device that hangs, for a while; now and then all links at once."""
    at, do = dice.uniform(0.5, settings.seconds), dice.choice(("rate", "drop", "suspend"))
    everybody = do != "suspend" and dice.random() < 0.1
    event = {"at": at, "do": do, "device": "*" if everybody else dice.choice(names(settings))}
    event["seconds"] = dice.uniform(0.2, 0.5 if everybody else 4.0)
    if do != "suspend":
        event["value"] = dice.uniform(0.02, 0.5) if do == "rate" else dice.uniform(0.5, 0.99)
    return event


def deeds(settings: Settings) -> list[Deed]:
    """In the order in which they are done. No device is a victim while it is one already, or comes back."""
    dice = random.Random(f"{settings.seed} deeds")
    free = dict.fromkeys(names(settings), 0.0)
    """Device → when it is a victim no more."""
    found: list[Deed] = []
    now, blinded = 1.0, 0.0
    while True:
        now += dice.expovariate(1.0 / settings.every)
        if now >= settings.seconds:
            return found
        do = dice.choices(("kill", "short", "long", "blind", "garbage"), (4, 2, 2, 1, 6))[0]
        idle = [name for name, until in free.items() if until <= now]
        if do == "garbage" or len(idle) < settings.devices * (1 - _FLEET_AT_ONCE):
            found.append(Deed(at=now, do=dice.choice(_GARBAGE), device=dice.choice(names(settings))))
        elif do == "blind":
            if now >= blinded:
                blinded = now + 10.0
                found.append(Deed(at=now, do="blind"))
        else:
            victim = dice.choice(idle)
            seconds = {"kill": 0.0, "short": settings.short_freeze, "long": settings.long_freeze}[do]
            free[victim] = now + (seconds + _THAWED_SECONDS if seconds else _KILLED_SECONDS)
            found.append(Deed(at=now, do="kill" if do == "kill" else "freeze", device=victim, seconds=seconds))
