"""What lies beside the trace in a run folder: the certificates, the profile, the versions of packages.

Everything may be missing: a trace can be sent to somebody alone, and a run that was killed wrote nothing else. What is
there and cannot be read is told, and does not keep the rest from being shown.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from testbed.profile.schema import name_and_parameters

T = TypeVar("T")


class CertificateLine(msgspec.Struct, frozen=True):
    """Of the fidelity certificate."""

    name: str
    verdict: str
    found: str
    limits: str = ""
    worst: str | None = None


class Fidelity(msgspec.Struct, frozen=True):
    """fidelity.json, as far as it is shown."""

    verdict: str
    invariants: list[CertificateLine]


class Quantiles(msgspec.Struct, frozen=True):
    count: int
    p50_s: float
    p99_s: float
    max_s: float


class Replayed(msgspec.Struct, frozen=True):
    """replay.json, as far as it is shown. An older one has less in it, and one without a recording only the problem."""

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


class HostEnergy(msgspec.Struct, frozen=True):
    """Of summary.json: what the host's own meter said; no trace has it."""

    joules: dict[str, float]
    seconds: float
    what: str


class _Summary(msgspec.Struct, frozen=True):
    host_energy: HostEnergy | None = None


class Host(msgspec.Struct, frozen=True):
    system: str = ""
    processor: str = ""
    cores: int | None = None
    memory_bytes: int | None = None


class Meta(msgspec.Struct, frozen=True):
    """meta.json, as far as it is shown."""

    edgebed: str = ""
    python: str = ""
    packages: dict[str, str] = {}
    host: Host = Host()


@dataclass(slots=True)
class RunFiles:
    """None or empty where there is no such file."""

    fidelity: Fidelity | None = None
    replayed: Replayed | None = None
    meta: Meta | None = None
    profile: str = ""
    task: str = ""
    target: float | None = None
    """The accuracy that was to be reached."""
    host_energy: HostEnergy | None = None


def is_of_a_run(trace: Path) -> bool:
    """Whether a trace has the name that a run gives it, so that what lies beside it belongs to the same run."""
    return trace.name.removesuffix(".gz") == "trace.jsonl"


def read(trace: Path, told: Callable[[str], None]) -> RunFiles:
    """Everything beside a trace; ``told`` hears what cannot be read."""
    found = RunFiles()
    if not is_of_a_run(trace):
        return found
    folder = trace.parent
    found.fidelity = _read(folder / "fidelity.json", lambda text: _decode(text, Fidelity), told)
    found.replayed = _read(folder / "replay.json", lambda text: _decode(text, Replayed), told)
    found.meta = _read(folder / "meta.json", lambda text: _decode(text, Meta), told)
    summary = _read(folder / "summary.json", lambda text: _decode(text, _Summary), told)
    found.host_energy = summary.host_energy if summary is not None else None
    found.profile = _read(folder / "profile.toml", str, told) or ""
    found.task, found.target = _read(folder / "profile.toml", _asked, told) or ("", None)
    return found


def _read(path: Path, parse: Callable[[str], T], told: Callable[[str], None]) -> T | None:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, RecursionError) as error:  # those of msgspec and tomllib are ValueErrors
        told(f"{path.name} cannot be read, and is left out: {error}")
        return None


def _decode(text: str, kind: type[T]) -> T:
    return msgspec.json.decode(text, type=kind)


class _Stop(msgspec.Struct, frozen=True):
    target_accuracy: float | None = None


class _Profile(msgspec.Struct, frozen=True):
    """As far as it is told apart; the whole of it is shown as text."""

    task: str | dict[str, Any] = ""
    stop: _Stop = _Stop()


def _asked(text: str) -> tuple[str, float | None]:
    """The task in one line, and the accuracy to be reached."""
    profile = msgspec.convert(tomllib.loads(text), type=_Profile)
    return _in_words(profile.task), profile.stop.target_accuracy


def _in_words(named: str | dict[str, Any]) -> str:
    """A name and its parameters; of a task, one of these (the split) is such a thing, too."""
    name, parameters = name_and_parameters(named)
    listed = ", ".join(
        f"{key} {_in_words(value) if isinstance(value, dict) and 'name' in value else value}"
        for key, value in parameters.items()
    )
    return f"{name} ({listed})" if listed else name
