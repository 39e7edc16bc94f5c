"""What a Flower project may have that would not mean here what it means in Flower: it is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from testbed.learning.training.own_training import OwnTrainingError


def check_strategy(strategy: Any) -> None:
    """Raise OwnTrainingError for a strategy that protects privacy at the server: it is replaced."""
    for cls in type(strategy).__mro__:
        if cls.__name__.startswith("DifferentialPrivacy"):
            raise OwnTrainingError(
                f"the ServerApp uses {cls.__name__}, which adds noise at the server, and the server's strategy is"
                " replaced here; use the strategy that it wraps, and LocalDpMod in the ClientApp"
            )


def check_workflow(workflow: Any) -> None:
    """Raise OwnTrainingError for secure aggregation."""
    own = type(getattr(workflow, "fit_workflow", None)).__name__
    if own.startswith("SecAgg"):
        raise _secure_aggregation(own)


def check_client_app(app: Any) -> None:
    """Raise OwnTrainingError if a ClientApp masks its updates."""
    mods = [*getattr(app, "_mods", ()), *_wrapped(getattr(app, "_call", None))]
    for function in getattr(app, "_registered_funcs", {}).values():
        mods += _wrapped(function)
    for mod in mods:
        name = getattr(mod, "__name__", type(mod).__name__)
        if name in ("secagg_mod", "secaggplus_mod"):
            raise _secure_aggregation(name)


def _secure_aggregation(name: str) -> OwnTrainingError:
    return OwnTrainingError(
        f"{name} masks updates so that only their sum can be read, and an asynchronous strategy reads each of them;"
        " remove it from the project"
    )


def _wrapped(function: Any) -> Iterator[Any]:
    """Yield the mods around a function: Flower keeps them in the cells of its wrappers."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)) if function else {}
    if "_mod" in cells and "_ffn" in cells:
        yield cells["_mod"].cell_contents
        yield from _wrapped(cells["_ffn"].cell_contents)
