"""Why what was measured is not what AUDG's paper prints. Each reason stands with the verdict that it explains."""

from __future__ import annotations

from testbed.papers.chapter import Verdict

SYNCHRONOUS: dict[Verdict, str] = {}
SIGNS: dict[str, dict[Verdict, str]] = {"iid": {}, "small": {}, "large": {}}
LOSSES: dict[str, dict[Verdict, str]] = {"iid": {}, "small": {}, "large": {}}
SHAPES: dict[str, dict[Verdict, str]] = {"dip": {}, "fall": {}, "gap": {}, "skew": {}}
THETA: dict[Verdict, str] = {}
