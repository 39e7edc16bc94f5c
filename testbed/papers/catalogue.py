"""The papers by name, in the order of the document."""

from __future__ import annotations

import importlib
import importlib.util

from testbed.papers.paper import Paper

_MODULES = ("audg", "afl", "asafl", "asyncfeded", "eafl")
PAPERS: dict[str, Paper] = {
    name: importlib.import_module(f"testbed.papers.{name}").PAPER
    for name in _MODULES
    if importlib.util.find_spec(f"testbed.papers.{name}")
}
