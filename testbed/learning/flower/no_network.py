"""Refuses connections while code of a Flower project runs: devices would wait for a hub beside their clocks.

An audit hook raises at the line that asks for a host or connects to one, and names it. Hubs of data sets are set to
be offline, so that what they have in their caches can be used.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager

from testbed.learning.training.own_training import OwnTrainingError

_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
_active = False
_is_installed = False


def set_offline() -> None:
    """Let hubs use only what is on this machine. Call it before the project is imported."""
    for name in _OFFLINE:
        os.environ.setdefault(name, "1")
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"


@contextmanager
def refused_connections() -> Generator[None, None, None]:
    """Within this block, a connection to a host raises OwnTrainingError."""
    global _active, _is_installed
    if not _is_installed:
        sys.addaudithook(_audit)
        _is_installed = True
    before, _active = _active, True
    try:
        yield
    finally:
        _active = before


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if not _active:
        return
    if event == "urllib.Request":
        raise _refusal(str(arguments[0]))
    if event == "socket.getaddrinfo":
        raise _refusal(f"{arguments[0]}:{arguments[1]}")
    if event == "socket.connect":
        connection = arguments[0]
        if isinstance(connection, socket.socket) and connection.family in (socket.AF_INET, socket.AF_INET6):
            raise _refusal(str(arguments[1]))


def _refusal(where: str) -> OwnTrainingError:
    return OwnTrainingError(
        f"connects to {where}, and a run has no network; download the data before (a hub's data set:"
        " save_to_disk, then load_from_disk in the project)"
    )
