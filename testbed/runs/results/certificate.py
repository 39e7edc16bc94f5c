"""The type of fidelity.json: how exact the timing of a run was. ``testbed.fidelity`` computes it."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from testbed.common.documented import doc, entries


class Verdict(enum.StrEnum):
    PASS = "PASS"  # noqa: S105  no password
    WARN = "WARN"
    FAIL = "FAIL"
    NOT_MEASURED = "not measured"


class Invariant(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the certificate."""

    name: Annotated[str, doc("of the invariant")]
    verdict: Annotated[Verdict, doc("PASS, WARN, FAIL or `not measured`")]
    found: Annotated[str, doc("the figures as a sentence")]
    limits: Annotated[str, doc("what passes, and what only warns")] = ""
    worst: Annotated[str | None, doc("the device with the largest error")] = None
    figures: Annotated[dict[str, float | int | None], doc("the figures themselves", key="figure")] = {}


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """How exact the emulated timing of a run was (fidelity.json)."""

    verdict: Annotated[Verdict, doc("the worst verdict of all invariants")]
    dilation: Annotated[float, doc("host seconds per emulated second")] = 1.0
    invariants: Annotated[tuple[Invariant, ...], entries("n")]

    def of(self, verdict: Verdict) -> list[Invariant]:
        """The invariants with this verdict."""
        return [line for line in self.invariants if line.verdict is verdict]
