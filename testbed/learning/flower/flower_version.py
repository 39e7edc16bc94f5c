"""Which versions of flwr are supported. Nothing here imports it: the launcher asks, too."""

from __future__ import annotations

import importlib.metadata
import re

from testbed.common.errors import UserError

FIRST, LAST = (1, 27), (1, 42)
RANGE = f"{FIRST[0]}.{FIRST[1]} to {LAST[0]}.{LAST[1]}"
INSTALL = f"pip install 'flwr>={FIRST[0]}.{FIRST[1]},<{LAST[0]}.{LAST[1] + 1}'"


def check() -> None:
    """Raise UserError if flwr is not installed, or in a version that is not supported."""
    try:
        found = importlib.metadata.version("flwr")
    except importlib.metadata.PackageNotFoundError:
        raise UserError(
            f"task flower: flwr is not installed; install it with: {INSTALL} (supported: {RANGE}),"
            " in an environment of its own if other packages need newer versions of what it needs (docs/flower.md)"
        ) from None
    if not is_supported(found):
        raise UserError(f"task flower: flwr {found} is installed, supported is {RANGE}; change it with: {INSTALL}")


def is_supported(version: str) -> bool:
    """Return whether a version such as ``1.41.0`` is in the range."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and FIRST <= (int(numbers[1]), int(numbers[2])) <= LAST
