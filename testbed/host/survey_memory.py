"""The times of a survey, remembered on this host for an hour.

Theory of operation (ADR 26)

Measuring the steps of a task takes most of a second, counting its FLOPs three. Both are the same from run to run on the
same host, so the template writes them to one small file in the user's cache and the next run of the same task reads
them. A wrong entry would admit a fleet that the host cannot carry, so it has to pass four tests:

Same. The key of an entry is a digest of what the times depend on: the host (machine, processor, cores, kernel,
governor), Python, torch and Edgebed, the task with its parameters, the size of the fleet and of a step, the training
job, and the processes on each core. A user's own task counts with the text of the modules beside it. Sizes are not
remembered.
Young. An entry is used for an hour.
Still true. Before it is used, the template times a few steps. If they differ by more than AGREES, all is measured.
Steps that are slower by less make the remembered times longer by the same factor, so that admission is never laxer
than with a survey of this moment.
Confirmed. After the run, the CPU seconds of its steps are compared with the entry; it is dropped if they are not alike.

Times that were measured on a busy host, or of a module that was edited meanwhile, are not remembered. A file that is
absent, damaged or not writable is no error: then the times are measured.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from testbed.common.files.cache_folder import cache_folder
from testbed.common.version import __version__
from testbed.host import kernel
from testbed.host.survey import StepTime

CHOICE = "EDGEBED_SURVEY"
"""Environment variable with the value of the option --survey: ``remembered`` (default) or ``new``."""
YOUNG_SECONDS = 3600.0
"""The age up to which an entry is used."""
AGREES = 1.25
"""Steps now and steps remembered may differ by this factor."""
BUSY = 0.10
"""Share of the time in which a process waited for a core, above which nothing is remembered; as in the certificate."""
_MOST_ENTRIES = 64
_MACHINE = Path("/etc/machine-id")


class SurveyTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What a survey measures and counts; all else in it is computed for each run."""

    measured_at: float
    """Seconds since 1970."""
    steps: tuple[StepTime, ...] = ()
    flops_forward: int = 0
    flops_training: int = 0
    evaluation_seconds: float = 0.0
    metrics: tuple[str, ...] = ()
    device_bytes: int = 0
    update_seconds: dict[str, float] = {}
    """Strategy → host seconds of the aggregator for one update, as the last run measured it."""

    def slower(self, factor: float) -> SurveyTimes:
        """Return these times for a host on which everything takes ``factor`` times as long."""
        return msgspec.structs.replace(
            self,
            steps=tuple(step.slower(factor) for step in self.steps),
            evaluation_seconds=self.evaluation_seconds * factor,
            update_seconds={strategy: seconds * factor for strategy, seconds in self.update_seconds.items()},
        )


def place() -> Path:
    return cache_folder() / "surveys.json"


def is_wanted() -> bool:
    """Whether the user allows a remembered survey."""
    return os.environ.get(CHOICE, "remembered") != "new"


def now() -> float:
    return datetime.now(UTC).timestamp()


def key(task: Mapping[str, object]) -> str:
    """Return the name of an entry: a digest of this host and of ``task``, which must be plain values."""
    host = {
        "edgebed": __version__,
        "python": platform.python_version(),
        "machine": _machine(),
        "kernel": platform.release(),
        "processor": kernel.processor(),
        "cores": sorted(os.sched_getaffinity(0)),
        "governor": kernel.governor(),
    }
    text = msgspec.json.encode({"host": host, "task": task}, order="deterministic")
    return hashlib.sha256(text).hexdigest()


def _machine() -> str:
    try:
        return _MACHINE.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return platform.node()


# ---- the file


def find(name: str) -> SurveyTimes | None:
    """Return the entry of this name; None if there is none, or if it is too old."""
    found = entries().get(name)
    return found if found is not None and 0.0 <= now() - found.measured_at < YOUNG_SECONDS else None


def keep(name: str, times: SurveyTimes) -> None:
    """Remember ``times``; the oldest entries make room."""
    kept = {**entries(), name: times}
    newest = sorted(kept, key=lambda each: kept[each].measured_at)[-_MOST_ENTRIES:]
    _write({each: kept[each] for each in newest})


def note_service(name: str, strategy: str, seconds: float) -> None:
    """Add what the aggregator needed for an update to the entry of this name, if there is one."""
    found = entries().get(name)
    if found is not None:
        keep(name, msgspec.structs.replace(found, update_seconds={**found.update_seconds, strategy: seconds}))


def drop(name: str) -> None:
    """Forget the entry of this name, if there is one: the next run measures."""
    kept = entries()
    if kept.pop(name, None) is not None:
        _write(kept)


def entries() -> dict[str, SurveyTimes]:
    """Return all entries; none if the file is absent, damaged, or of another version."""
    try:
        return msgspec.json.decode(place().read_bytes(), type=dict[str, SurveyTimes])
    except (OSError, RuntimeError, msgspec.MsgspecError):  # RuntimeError: this user has no home folder
        return {}


def _write(kept: Mapping[str, SurveyTimes]) -> None:
    """Replace the file at once. Two runs at the same time may lose an entry, never the file."""
    try:
        path = place()
    except RuntimeError:  # this user has no home folder
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):  # a cache that cannot be written only costs a second in the next run
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, msgspec.json.encode(kept))
        finally:
            os.close(file)
        os.replace(draft, path)
    with contextlib.suppress(OSError):
        draft.unlink(missing_ok=True)
