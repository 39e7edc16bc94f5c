"""Where and of which code a figure was measured.

``code`` identifies the program: a digest of the syntax trees of its packages without docstrings. Two figures belong to
the same code if it is equal, however many commits with documents, tests or comments lie between them.
"""

from __future__ import annotations

import ast
import datetime
import functools
import hashlib
import os
import subprocess
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from testbed.host.kernel import pressure_seconds, processor

ROOT = Path(__file__).parent.parent.parent.parent
PROGRAM = ("testbed", "devices", "aggregator", "profiles", "run_testbed.py")
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    commit: str
    dirty: bool
    """Whether the program had changes that are not committed."""
    code: str
    processor: str
    cores: int
    torch: str

    @staticmethod
    @functools.cache
    def of(folder: Path) -> Provenance:
        """The program in this folder on this host, as it is at the first call: reading all of it takes a second."""
        return Provenance(
            commit=_git(folder, "rev-parse", "--short=7", "HEAD") or "unknown",
            dirty=bool(_git(folder, "status", "--porcelain", "--", *PROGRAM)),
            code=digest(folder),
            processor=processor(),
            cores=len(os.sched_getaffinity(0)),
            torch=metadata.version("torch"),
        )


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def digest(folder: Path) -> str:
    """The same as long as no statement of the program changes."""
    found = hashlib.sha256()
    for name in PROGRAM:
        place = folder / name
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            tree = _WithoutDocstrings().visit(ast.parse(path.read_bytes()))
            found.update(f"{path.relative_to(folder)} {ast.dump(tree)}".encode())
    return found.hexdigest()[:10]


class _WithoutDocstrings(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node


class PressureMeter:
    """The share of time in which a process waited for a core (PSI), in stretches from call to call."""

    def __init__(self) -> None:
        self._at, self._before = time.monotonic(), pressure_seconds()
        self._share: float | None = None

    def __call__(self) -> float | None:
        """The share since the call before. A stretch too short to tell belongs to the stretch before it."""
        at, total = time.monotonic(), pressure_seconds()
        if total is None or self._before is None:
            return None
        if self._share is None or at - self._at >= _LOOK_SECONDS:
            self._share = min(1.0, (total - self._before) / max(at - self._at, 1e-3))
            self._at, self._before = at, total
        return self._share


def pressure_now() -> float | None:
    """The share while this process sleeps: what others do on this host."""
    meter = PressureMeter()
    time.sleep(_LOOK_SECONDS)
    return meter()


def committed(path: Path) -> str:
    """The file as it is in the last commit; empty if it is in none."""
    return _git(path.parent, "show", f"HEAD:./{path.name}")


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
