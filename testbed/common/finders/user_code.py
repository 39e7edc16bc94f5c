"""The line of a user's code that an exception came from, and the exception as one line of text.

A user's code is a module that a profile names, what was found beside it, and every other file that belongs neither to
our packages nor to Python's libraries. The innermost such line of the traceback is the one to look at: a library that
it called raised the exception, or we did.
"""

from __future__ import annotations

import sys
import sysconfig
import traceback
from pathlib import Path
from types import FrameType

from testbed.common.finders import own_packages, user_modules

_LIBRARIES = (f"{sysconfig.get_path('stdlib')}/", f"{sysconfig.get_path('platstdlib')}/")
_INSTALLED = ("/site-packages/", "/dist-packages/")


def in_one_line(error: BaseException, *, with_type: bool = True) -> str:
    """Return an exception as one line: where in the user's code, its type, its text and its notes.

    For example ``mine.py:31, in weight: ZeroDivisionError: division by zero (update of phone-3, version 12)``.
    """
    text = f"{type(error).__name__}: {error}".removesuffix(": ") if with_type else str(error)
    notes = "; ".join(getattr(error, "__notes__", ()))
    parts = [part for part in (place_of(error), text) if part]
    return " ".join((": ".join(parts) + (f" ({notes})" if notes else "")).split())


def place_of(error: BaseException) -> str:
    """Return file, line and function of the innermost line of a user's code; empty if the traceback has none."""
    steps = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if _is_users(frame)]
    if not steps:
        return ""
    frame, line = steps[-1]
    return f"{shown_path(frame.f_code.co_filename)}:{line}, in {frame.f_code.co_name}"


def _is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    if own_packages.has_file(file):  # a profile may name a class of ours as module:Class, too
        return False
    if user_modules.FINDER.has_found(str(frame.f_globals.get("__name__", ""))):
        return True  # also one that is installed as a library
    return not _is_library(file) and not file.startswith("<")


def folder_of(module: str) -> Path | None:
    """Return the folder of an imported module of a user's; None if it is ours, a library's, or not from a file."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or own_packages.has_file(file) or _is_library(file):
        return None
    return Path(file).parent


def _is_library(file: str) -> bool:
    return file.startswith(_LIBRARIES) or any(folder in file for folder in _INSTALLED)


def shown_path(file: str) -> str:
    """Return a path as the user knows it: below the folder of the profile, or the current one."""
    folders = [folder for folder in user_modules.FINDER.folders if Path(file).is_relative_to(folder)]
    return str(Path(file).relative_to(folders[0])) if folders else file
