"""Whether the files of a data set are on this machine. That they cannot be read is another matter, and no excuse."""

from __future__ import annotations

from testbed.common.errors import UserError
from testbed.common.progress import NO_PROGRESS
from testbed.learning.data.data_files import locate
from testbed.learning.data.data_sources import SOURCES


def present(data_set: str) -> bool:
    """Set EDGEBED_OFFLINE before: nothing is to be downloaded for a test."""
    try:
        locate(SOURCES[data_set], None, NO_PROGRESS)
    except UserError:
        return False
    return True
