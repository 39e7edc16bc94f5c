"""The parameter ``model`` of a task."""

from __future__ import annotations

from typing import Any

from testbed.common.parameters import param
from testbed.learning import models


def one_of(*names: str) -> Any:
    """Return a parameter that names one of these networks; the first is the default."""
    known = models.NETWORKS
    meaning = "; ".join(f"{name}: {known[name].title}, {known[name].parameters:,} parameters" for name in names)
    return param(names[0], meaning, choices=names)
