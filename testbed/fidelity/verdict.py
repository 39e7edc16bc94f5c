"""One line of a certificate, and the limits that decide its verdict."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

_ROUNDING = 1e-12
"""21 ÷ 20 − 1 is a little more than 0.05 in floating point."""


class Verdict(enum.StrEnum):
    PASS = "PASS"  # noqa: S105  no password
    WARN = "WARN"
    FAIL = "FAIL"
    NOT_MEASURED = "not measured"


SEVERITY = (Verdict.NOT_MEASURED, Verdict.PASS, Verdict.WARN, Verdict.FAIL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One line of the certificate."""

    name: str
    verdict: Verdict
    found: str
    """The figures as a sentence."""
    figures: dict[str, float | int | None] = field(default_factory=dict)
    limits: str = ""
    worst: str | None = None
    """The device with the largest error."""


def judge(*measured: tuple[float, float, float]) -> Verdict:
    """The worst verdict over triples (value, largest value that passes, largest value that warns)."""
    verdicts = [
        Verdict.PASS if value <= passes + _ROUNDING else Verdict.WARN if value <= warns + _ROUNDING else Verdict.FAIL
        for value, passes, warns in measured
    ]
    return max(verdicts, key=SEVERITY.index)


def holds(condition: bool) -> Verdict:
    return Verdict.PASS if condition else Verdict.FAIL


def not_measured(name: str, why: str) -> Invariant:
    return Invariant(name=name, verdict=Verdict.NOT_MEASURED, found=why)
