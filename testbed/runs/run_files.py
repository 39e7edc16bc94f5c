"""The files beside the trace in a run folder: the certificates, the profile, the versions of packages.

Each may be missing: a trace can be passed on alone, and a run that was killed wrote no other file. A file that cannot
be read is reported and left out; the others are still shown.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from testbed.host.rapl import HostEnergy
from testbed.profile.schema import name_and_parameters

T = TypeVar("T")


class CertificateLine(msgspec.Struct, frozen=True):
    """One invariant of the certificate."""

    name: str
    verdict: str
    found: str
    limits: str = ""
    worst: str | None = None


class Fidelity(msgspec.Struct, frozen=True):
    """The part of fidelity.json that is shown."""

    verdict: str
    invariants: list[CertificateLine]


class Quantiles(msgspec.Struct, frozen=True):
    count: int
    p50_s: float
    p99_s: float
    max_s: float


class Replayed(msgspec.Struct, frozen=True):
    """The part of replay.json that is shown. Older files have fewer keys; without a recording there is a problem."""

    trace: str
    mode: str
    problem: str = ""
    end: str = ""
    delays: dict[str, Quantiles | None] = {}
    beyond_the_recording: int = 0
    arrivals_common: int = 0
    arrivals_in_order: float | None = None
    transfers_common: int | None = None
    losses_differ: int = 0
    same_staleness: bool | None = None
    same_losses: bool | None = None
    same_versions: bool | None = None
    same_model: bool | None = None


class _Summary(msgspec.Struct, frozen=True):
    host_energy: HostEnergy | None = None


class Host(msgspec.Struct, frozen=True):
    system: str = ""
    processor: str = ""
    cores: int | None = None
    memory_bytes: int | None = None


class Meta(msgspec.Struct, frozen=True):
    """The part of meta.json that is shown."""

    edgebed: str = ""
    python: str = ""
    packages: dict[str, str] = {}
    host: Host = Host()


@dataclass(slots=True)
class RunFiles:
    """Values from all files; None or empty if there is no such file."""

    fidelity: Fidelity | None = None
    replayed: Replayed | None = None
    meta: Meta | None = None
    profile: str = ""
    task: str = ""
    target: float | None = None
    """``stop.target_accuracy`` of the profile."""
    host_energy: HostEnergy | None = None


def is_of_a_run(trace: Path) -> bool:
    """Whether a trace has the name that a run gives it, so that the files beside it belong to the same run."""
    return trace.name.removesuffix(".gz") == "trace.jsonl"


def read(trace: Path, note: Callable[[str], None]) -> RunFiles:
    """Read all files beside a trace; ``note`` receives a sentence for each that cannot be read."""
    found = RunFiles()
    if not is_of_a_run(trace):
        return found
    folder = trace.parent
    found.fidelity = _read(folder / "fidelity.json", lambda text: _decode(text, Fidelity), note)
    found.replayed = _read(folder / "replay.json", lambda text: _decode(text, Replayed), note)
    found.meta = _read(folder / "meta.json", lambda text: _decode(text, Meta), note)
    summary = _read(folder / "summary.json", lambda text: _decode(text, _Summary), note)
    found.host_energy = summary.host_energy if summary is not None else None
    found.profile = _read(folder / "profile.toml", str, note) or ""
    found.task, found.target = _read(folder / "profile.toml", _task_and_target, note) or ("", None)
    return found


def _read(path: Path, parse: Callable[[str], T], note: Callable[[str], None]) -> T | None:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, RecursionError) as error:  # those of msgspec and tomllib are ValueErrors
        note(f"{path.name} cannot be read and is left out: {error}")
        return None


def _decode(text: str, kind: type[T]) -> T:
    return msgspec.json.decode(text, type=kind)


class _Stop(msgspec.Struct, frozen=True):
    target_accuracy: float | None = None


class _Profile(msgspec.Struct, frozen=True):
    """The part of profile.toml that is read here; the whole file is shown as text."""

    task: str | dict[str, Any] = ""
    stop: _Stop = _Stop()


def _task_and_target(text: str) -> tuple[str, float | None]:
    """The task in one line, and the target accuracy."""
    profile = msgspec.convert(tomllib.loads(text), type=_Profile)
    return _in_words(profile.task), profile.stop.target_accuracy


def _in_words(named: str | dict[str, Any]) -> str:
    """A name with its parameters in parentheses; a parameter may itself be a name with parameters (the split)."""
    name, parameters = name_and_parameters(named)
    listed = ", ".join(
        f"{key} {_in_words(value) if isinstance(value, dict) and 'name' in value else value}"
        for key, value in parameters.items()
    )
    return f"{name} ({listed})" if listed else name
