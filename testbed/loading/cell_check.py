"""Whether a radio cell, the devices in it and the rule fit together: told before anything is started."""

from __future__ import annotations

from aggregator.strategies import STRATEGIES
from testbed.common.errors import ProfileError
from testbed.common.parameters import ParameterError
from testbed.profile.schema import Experiment


def check(experiment: Experiment, source: str) -> None:
    """Refuse what cannot be."""
    name = experiment.strategy_name
    grants = bool(STRATEGIES.find(name, source, "strategy").grants)
    if grants and experiment.cell is None:
        problem = (
            f"is missing; {name} shares the band of a radio cell among devices: add [cell] (its keys have defaults)"
        )
        raise ProfileError(source, "cell", problem)
    if experiment.cell is not None and not grants:
        problem = f"is given, but {name} grants no rates, so that uploads would not be held up by it"
        remedy = "leave it out, or take asafl: with control = 'fixed' and calibrated = false, it is SAFL in a cell"
        raise ProfileError(source, "cell", f"{problem}: {remedy}")
    _check_places(experiment, source)
    if experiment.strategy_parameters.get("memory") == "light":
        _check_memories(experiment, source)


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


def _check_memories(experiment: Experiment, source: str) -> None:
    """A device that uploads differences must know what the server has of it."""
    remedy = "take strategy.memory = 'full'"
    for i, group in enumerate(experiment.devices):
        if group.on_lost_download == "old_base":
            problem = "is old_base; with memory = 'light', a device learns from the model that is lost what was taken"
            raise ProfileError(source, f"devices[{i}].on_lost_download", f"{problem}: take wait, or {remedy}")
    forgetful = "with memory = 'light', what a process that is killed knows is lost for good"
    for i, event in enumerate(experiment.events):
        if event.do == "rejoin":
            raise ProfileError(source, f"events[{i}].do", f"is rejoin; {forgetful}: {remedy}")
    if experiment.presence.restart not in ("never", 0):
        problem = f"is {experiment.presence.restart}; {forgetful}: take never, or {remedy}"
        raise ProfileError(source, "presence.restart", problem)
