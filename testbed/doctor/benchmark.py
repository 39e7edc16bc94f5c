"""``doctor --calibrate``: measures sleep error, step time, loopback and fork cost of this host.

The result is stored in the user's cache folder; the command ``plan`` reads it.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from testbed.common.errors import UserError
from testbed.common.stats import quantile
from testbed.host import calibration, cores, kernel
from testbed.host.priority import Priority
from testbed.host.private_folder import private_folder
from testbed.host.survey import Survey
from testbed.learning.data import folders
from testbed.loading import profile_files, profile_loader
from testbed.processes import preparation
from testbed.processes.templates import forkserver
from testbed.wire.sockets import Hub, closing_peer

_SLEEPS = 400
_SLEEP_SECONDS = 0.004
_FORKS = 20
_MESSAGE_BYTES = 1 << 20
_LOOPBACK_SECONDS = 1.0
_EXPERIMENT = "quickstart"


class HostCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of this host, in seconds and bytes per second."""

    measured: str
    processor: str
    cores: int
    governor: str | None
    sleep_p50: float
    sleep_p99: float
    """How late a sleeping process wakes."""
    step_alone: float
    step_company: float
    step_slow: float
    """CPU seconds of a local step of 32 digits: median alone, then median and p90 beside the processes of a run."""
    loopback: float
    """Bytes per second of 1 MB messages from one process to another."""
    fork: float
    """From the request for a device process to its first line of code, median."""


def stored_at() -> Path:
    return folders.cache() / "host.json"


def stored() -> HostCalibration | None:
    """Return the stored calibration, or None if there is none of this host."""
    try:
        found = msgspec.json.decode(stored_at().read_bytes(), type=HostCalibration)
    except (OSError, msgspec.MsgspecError):
        return None
    same = found.processor == kernel.processor() and found.cores == len(cores.available_cores())
    return found if same else None


def measure() -> HostCalibration:
    """Measure this host, which takes about ten seconds, and store the result. Raises UserError."""
    available = cores.available_cores()
    sleeps: Any = calibration.in_child(_sleep_errors)
    loopback: Any = _loopback()
    if sleeps is None or loopback is None:
        raise UserError("a process that measured this host ended early; free some memory and repeat the command")
    survey, fork = _template()
    step = survey.steps[-1]
    found = HostCalibration(
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        processor=kernel.processor(),
        cores=len(available),
        governor=kernel.governor(),
        sleep_p50=quantile(sleeps, 0.5),
        sleep_p99=quantile(sleeps, 0.99),
        step_alone=step.alone,
        step_company=step.seconds,
        step_slow=step.slow,
        loopback=loopback,
        fork=fork,
    )
    path = stored_at()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    draft.replace(path)
    return found


def _sleep_errors() -> list[float]:
    """Return how late each sleep ends, in a process with the core and priority of a device."""
    cores.settle(cores.roles().device_cores[:1], Priority.DEVICE)
    errors = []
    for _ in range(_SLEEPS):
        began = time.monotonic()
        time.sleep(_SLEEP_SECONDS)
        errors.append(time.monotonic() - began - _SLEEP_SECONDS)
    return errors


def _loopback() -> object:
    """Return bytes per second. Both ends are children: a process that forks must not have a ZeroMQ context."""
    with private_folder() as folder:
        endpoint = f"ipc://{folder.path}/hub"
        rates = calibration.in_children([lambda: _receive(endpoint), lambda: _send(endpoint)])
    return rates[0]


def _receive(endpoint: str) -> float:
    hub = Hub(endpoint, max_bytes=2 * _MESSAGE_BYTES)
    hub.receive(10.0)
    received, began = 0, time.monotonic()
    while time.monotonic() - began < _LOOPBACK_SECONDS:
        received += hub.receive(1.0) is not None
    seconds = time.monotonic() - began
    hub.send("sender", [b"enough"])
    hub.receive(1.0)
    hub.close()
    return received * _MESSAGE_BYTES / seconds


def _send(endpoint: str) -> None:
    message = bytes(_MESSAGE_BYTES)
    with closing_peer(endpoint, "sender", max_bytes=2 * _MESSAGE_BYTES) as peer:
        while peer.receive(0) is None:
            peer.send([message], timeout=10.0)


def _template() -> tuple[Survey, float]:
    """Return a survey of the shipped experiment, and the median seconds of a fork of its template."""
    experiment = profile_loader.load(profile_files.SHIPPED / "experiments" / f"{_EXPERIMENT}.toml")
    order = msgspec.structs.replace(preparation.template_request(experiment, cores.roles()), remembered=False)
    with private_folder() as private, preparation.prepared_template(private, order) as prepared:
        survey = prepared.survey(lambda: False)
        assert survey is not None
        [template] = prepared.run_templates(1)
        times = []
        for _ in range(_FORKS):
            reading, writing = os.pipe()
            with os.fdopen(reading, encoding="ascii") as pipe:
                began = time.monotonic()
                template.request([forkserver.order("clock", _send_time, descriptors=1)], [writing])
                os.close(writing)
                times.append(float(pipe.read()) - began)
        template.channel.close()
    return survey, quantile(times, 0.5)


def _send_time(pipe: int) -> None:
    os.write(pipe, str(time.monotonic()).encode())
