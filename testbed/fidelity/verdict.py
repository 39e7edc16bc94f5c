"""The limits that decide the verdict of an invariant."""

from __future__ import annotations

from testbed.runs.results.certificate import Invariant, Verdict

_ROUNDING = 1e-12
"""21 ÷ 20 − 1 is a little more than 0.05 in floating point."""


SEVERITY = (Verdict.NOT_MEASURED, Verdict.PASS, Verdict.WARN, Verdict.FAIL)


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
