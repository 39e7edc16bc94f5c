"""The exceptions of the Python API. Each text is one line that says what is wrong and what to do."""

from testbed.common.errors import (
    HostTooSmall,
    NotARun,
    ProfileError,
    ReplayDiffers,
    RunFailed,
    RunInterrupted,
    UnreadableFile,
    UserError,
)

__all__ = [
    "HostTooSmall",
    "NotARun",
    "ProfileError",
    "ReplayDiffers",
    "RunFailed",
    "RunInterrupted",
    "UnreadableFile",
    "UserError",
]
