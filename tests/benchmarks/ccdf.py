"""The figure: the share of samples by their error, beside the figures that Mininet-HiFi published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.common.stats import ccdf

_SMALLEST = 1e-5
_MININET = ((0.0083, 0.5), (0.058, 0.01), (0.10, 0.0018))
"""Handigol et al., CoNEXT 2012, 100 Mbit/s: p50, p99, and the share with an error above 10 %."""


def plot(path: Path, curves: Mapping[str, Sequence[float]]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    for name, errors in curves.items():
        values, shares = ccdf([max(error, _SMALLEST) for error in errors])
        axes.step([100 * value for value in values], shares, where="post", label=name, linewidth=1.4)
    axes.plot(
        [100 * error for error, _ in _MININET],
        [share for _, share in _MININET],
        "kx--",
        linewidth=0.8,
        label="Mininet-HiFi, its published 100 Mbit/s",
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="|obtained ÷ asked − 1| in %",
        ylabel="share of samples with at least this error",
        title="Round trips of jobs, by the aggregator's clock",
    )
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)
