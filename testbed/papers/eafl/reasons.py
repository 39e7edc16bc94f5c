"""EAFL: why a verdict is what it is. Each is printed only with the verdict that it explains."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.papers.chapter import Verdict

REASONS: Mapping[tuple[str, Verdict], str] = {
    ("t1", Verdict.UNTESTED): (
        "among 15 devices T1 deals nearly what T2 with L_num = 1 does, one or two labels each; `eafl/small-t1.toml`"
    ),
    ("cifar", Verdict.UNTESTED): "too much computing for minutes on two cores; `eafl/cifar10-t2.toml` is the paper's",
    ("figures", Verdict.UNTESTED): "15 devices make no more than a few clusters, and 60 iterations few clusterings",
    ("widest", Verdict.UNTESTED): "20 updates an iteration are more than the 15 devices have",
}
"""By row and verdict."""
