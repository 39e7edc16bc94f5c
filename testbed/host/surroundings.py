"""What a forked process takes over from its launcher, which is not its parent: variables, folders, cores and limits.

Names of folders are bytes, as the kernel has them: they need not be UTF-8, and text in a message must be.
"""

from __future__ import annotations

import importlib
import os
import resource
import sys
from pathlib import Path

import msgspec

from testbed.common.finders import user_modules


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    environment: tuple[bytes, ...]
    """``NAME=value`` each."""
    folder: bytes
    """The working folder; empty if it was removed."""
    import_path: tuple[bytes, ...]
    user_folders: tuple[bytes, ...]
    """Where a user's modules are."""
    cores: tuple[int, ...]
    open_files: int
    """The soft limit."""

    def take_over(self) -> None:
        """Have the variables, the working folder, the import path, the cores and the limit of the launcher."""
        os.environb.clear()
        os.environb.update(dict(variable.split(b"=", 1) for variable in self.environment))
        sys.path[:] = map(os.fsdecode, self.import_path)
        user_modules.FINDER.search_in(*(Path(os.fsdecode(folder)) for folder in self.user_folders))
        importlib.invalidate_caches()  # a module may be newer than the folders that this process has read
        if self.folder:
            os.chdir(self.folder)
        os.sched_setaffinity(0, self.cores)
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.open_files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def of_this_process(settings: dict[str, str]) -> Surroundings:
    """``settings``: further variables."""
    variables = os.environb | {os.fsencode(name): os.fsencode(value) for name, value in settings.items()}
    try:
        folder = os.fsencode(Path.cwd())
    except FileNotFoundError:
        folder = b""
    return Surroundings(
        environment=tuple(sorted(name + b"=" + value for name, value in variables.items())),
        folder=folder,
        import_path=tuple(os.fsencode(path) for path in sys.path if path),
        user_folders=tuple(map(os.fsencode, user_modules.FINDER.folders)),
        cores=tuple(sorted(os.sched_getaffinity(0))),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )
