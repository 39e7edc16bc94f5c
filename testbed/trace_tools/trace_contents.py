"""What a trace contains: a run by device, a recorded rate, or recorded availability. ``trace show`` prints it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from testbed.common.stats import quantile, rank
from testbed.history.trace import Scripted
from testbed.trace_tools.trace_summary import DeviceSummary, RunSummary, Seconds
from testbed.traces.availability import AvailabilityTrace
from testbed.traces.rate import RateTrace

_MOST_WINDOWS = 100_000
"""A rate is summarised by seconds; a trace longer than this, by this number of longer windows."""


class PhaseQuantiles(msgspec.Struct, frozen=True, kw_only=True):
    p50: float
    p99: float


class PhaseSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one phase of all jobs; None where there are none."""

    asked: PhaseQuantiles | None
    obtained: PhaseQuantiles | None


class StalenessRange(msgspec.Struct, frozen=True, kw_only=True):
    mean: float
    max: int


class JobFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of one device or of several."""

    jobs: int
    download: PhaseSeconds
    compute: PhaseSeconds
    upload: PhaseSeconds
    drops: int
    suspensions: int
    suspended_s: float
    staleness: StalenessRange | None
    """None if no update arrived."""


class DeviceFigures(JobFigures, frozen=True):
    """The jobs of one device. Its name is no keyword, so that JSON has it before the fields of the base."""

    device: str


class RunContents(msgspec.Struct, frozen=True, kw_only=True):
    """The trace of a run. The fields of the header are None if there is no header."""

    trace: str
    name: str | None
    strategy: str | None
    seed: int | None
    dilation: float | None
    seconds: float
    versions: int
    stopped: str | None
    """Why the run ended; None if the trace has no end."""
    events: int
    scripted: list[Scripted]
    devices: list[DeviceFigures]
    all: JobFigures
    notes: list[str]


class RateContents(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded link rate; ``outage`` is the share of its windows without any byte."""

    trace: str
    seconds: float
    rows: int
    mean_mbps: float
    p1_mbps: float
    p50_mbps: float
    p99_mbps: float
    outage: float
    notes: list[str] = []


class AvailabilityContents(msgspec.Struct, frozen=True, kw_only=True):
    """Recorded availability; ``available`` is a share of the time."""

    trace: str
    seconds: float
    rows: int
    available: float
    notes: list[str] = []


# ---- a run


def of_run(run: RunSummary, path: Path, notes: list[str]) -> RunContents:
    """Return the contents of a run, with one entry for each device and one for all of them."""
    header, stopped = run.header, run.stopped
    return RunContents(
        trace=str(path),
        name=header.name if header else None,
        strategy=header.strategy if header else None,
        seed=header.seed if header else None,
        dilation=header.dilation if header else None,
        seconds=run.seconds,
        versions=run.versions,
        stopped=stopped.reason if stopped else None,
        events=run.events,
        scripted=run.scripted,
        devices=[_device(name, device) for name, device in run.devices.items()],
        all=_figures(list(run.devices.values())),
        notes=notes,
    )


def _device(name: str, device: DeviceSummary) -> DeviceFigures:
    return DeviceFigures(name, **msgspec.structs.asdict(_figures([device])))


def _figures(devices: Sequence[DeviceSummary]) -> JobFigures:
    staleness = _joined([device.staleness for device in devices])
    return JobFigures(
        jobs=sum(device.jobs for device in devices),
        download=_phase([device.download for device in devices]),
        compute=_phase([device.compute for device in devices], throttled=True),
        upload=_phase([device.upload for device in devices]),
        drops=sum(device.drops for device in devices),
        suspensions=sum(device.suspensions for device in devices),
        suspended_s=sum(device.suspended_s for device in devices),
        staleness=StalenessRange(mean=float(staleness.mean()), max=int(staleness.max())) if len(staleness) else None,
    )


def _phase(seconds: Sequence[Seconds], *, throttled: bool = False) -> PhaseSeconds:
    """``throttled``: leave out the asked seconds that are 0, those of devices without a throttle."""
    asked = _joined([each.asked for each in seconds])
    return PhaseSeconds(
        asked=_quantiles(asked[asked > 0] if throttled else asked),
        obtained=_quantiles(_joined([each.obtained for each in seconds])),
    )


def _joined(parts: Sequence[array[Any]]) -> npt.NDArray[Any]:
    return np.concatenate([np.asarray(part) for part in parts]) if parts else np.empty(0)


def _quantiles(values: npt.NDArray[Any]) -> PhaseQuantiles | None:
    if not len(values):
        return None
    ordered = np.sort(values)
    p50, p99 = (float(ordered[rank(len(ordered), q)]) for q in (0.5, 0.99))
    return PhaseQuantiles(p50=p50, p99=p99)


# ---- a rate, or availability


def of_rate(link: RateTrace, path: Path) -> RateContents:
    """Return the quantiles of a rate over windows of one second."""
    width = max(1.0, link.period / _MOST_WINDOWS)
    starts = (place * width for place in range(max(1, int(link.period / width))))
    each = [link.bytes_between(start, start + width) * 8e-6 / width for start in starts]
    return RateContents(
        trace=str(path),
        seconds=link.period,
        rows=sum(1 for _ in link.pieces),
        mean_mbps=link.mean / 1e6,
        p1_mbps=quantile(each, 0.01),
        p50_mbps=quantile(each, 0.5),
        p99_mbps=quantile(each, 0.99),
        outage=sum(mbps == 0 for mbps in each) / len(each),
    )


def of_availability(presence: AvailabilityTrace, path: Path) -> AvailabilityContents:
    """Return the share of the time in which a device is available."""
    rows = sum(1 for _ in presence.pieces)
    return AvailabilityContents(trace=str(path), seconds=presence.period, rows=rows, available=presence.share)
