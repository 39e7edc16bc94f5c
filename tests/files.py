"""Whether the files of a data set are on this machine. (Files that are present but unreadable must fail a test.)"""

from __future__ import annotations

from testbed.common.errors import UserError
from testbed.common.progress_protocol import NO_PROGRESS
from testbed.learning.data.data_files import locate
from testbed.learning.data.data_sources import SOURCES


def present(data_set: str) -> bool:
    """Whether the files are present. Set EDGEBED_OFFLINE before: a test must not download anything."""
    try:
        locate(SOURCES[data_set], None, NO_PROGRESS)
    except UserError:
        return False
    return True
