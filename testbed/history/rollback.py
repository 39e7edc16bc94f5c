"""Cutting a trace back to the moment of a checkpoint; later events are moved to another file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from testbed.common.errors import UserError
from testbed.common.files.compressed import UNPACKING_ERRORS, opened_raw

TRACE = "trace.jsonl"
_CHUNK = 1 << 20


def roll_back(folder: Path, trace_bytes: int) -> int:
    """Move the events after the checkpoint to ``undone-N.jsonl``; returns their number."""
    trace, aside = folder / TRACE, _new_name(folder)
    with trace.open("rb") as file:
        file.seek(trace_bytes)
        with aside.open("wb") as rest:
            shutil.copyfileobj(file, rest, _CHUNK)
    if aside.stat().st_size == 0:
        aside.unlink()
        return 0
    os.truncate(trace, trace_bytes)
    with aside.open("rb") as rest:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: rest.read(_CHUNK), b""))


def unpacked(folder: Path) -> Path:
    """The plain trace of a run folder, unpacked first if necessary. Raises UserError if there is none."""
    trace, packed = folder / TRACE, folder / f"{TRACE}.gz"
    if not trace.exists() and packed.exists():
        draft = folder / f"{TRACE}.part"
        try:
            with opened_raw(packed) as file, draft.open("wb") as plain:
                shutil.copyfileobj(file, plain, _CHUNK)
            os.replace(draft, trace)
        except (*UNPACKING_ERRORS, OSError) as error:
            raise UserError(f"{packed}: cannot be unpacked: {error}") from None
        finally:
            draft.unlink(missing_ok=True)
        packed.unlink()
    if not trace.is_file():
        raise UserError(f"{folder}: has no {TRACE} to continue; run the experiment again")
    return trace


def _new_name(folder: Path) -> Path:
    number = 1
    while (found := folder / f"undone-{number}.jsonl").exists():
        number += 1
    return found
