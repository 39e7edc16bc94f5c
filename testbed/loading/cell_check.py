"""Checks of a radio cell: whether the devices in it and the strategy fit."""

from __future__ import annotations

from aggregator.strategies import STRATEGIES
from testbed.common.errors import ProfileError
from testbed.common.parameters import ParameterError
from testbed.profile.schema import Experiment


def check(experiment: Experiment, source: str) -> None:
    """Raise ProfileError if the cell, the fleet and the strategy do not fit together."""
    name = experiment.strategy_name
    grants = bool(STRATEGIES.find(name, source, "strategy").grants)
    if grants and experiment.cell is None:
        problem = (
            f"is missing; {name} shares the band of a radio cell among devices: add [cell] (its keys have defaults)"
        )
        raise ProfileError(source, "cell", problem)
    if experiment.cell is not None and not grants:
        problem = f"is given, but {name} grants no rates, so it would not affect uploads"
        remedy = "leave it out, or use asafl (with control = 'fixed' and calibrated = false, it is SAFL in a cell)"
        raise ProfileError(source, "cell", f"{problem}: {remedy}")
    _check_places(experiment, source)
    if experiment.strategy_parameters.get("memory") == "light":
        _check_baselines(experiment, source)


def _check_places(experiment: Experiment, source: str) -> None:
    for i, group in enumerate(experiment.devices):
        if group.distance is None:
            continue
        key = f"devices[{i}].distance"
        if experiment.cell is None:
            problem = f"is {group.distance:g}, but there is no radio cell: add [cell], or leave it out"
            raise ProfileError(source, key, problem)
        try:
            experiment.cell.check_place(group.distance)
        except ParameterError as error:
            raise ProfileError(source, key, error.problem) from None


def _check_baselines(experiment: Experiment, source: str) -> None:
    """With light memory, a device must never lose the baseline that the aggregator shares with it."""
    remedy = "use strategy.memory = 'full'"
    lost = "with memory = 'light', a killed process loses its baseline for good"
    for i, event in enumerate(experiment.events):
        if event.do == "rejoin":
            raise ProfileError(source, f"events[{i}].do", f"is rejoin; {lost}: {remedy}")
    if experiment.presence.restart not in ("never", 0):
        problem = f"is {experiment.presence.restart}; {lost}: use never, or {remedy}"
        raise ProfileError(source, "presence.restart", problem)
