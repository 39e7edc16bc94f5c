"""Checks of what only shows in the whole experiment: strategy and fleet, lost transfers, replay, names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from aggregator.strategies import STRATEGIES
from testbed.common.errors import ProfileError
from testbed.common.parameters import ParameterError, as_table, build
from testbed.loading.profile_files import exists
from testbed.profile.schema import DeviceGroup, DeviceProfile, Experiment, Replay


def check_strategy(experiment: Experiment, source: str) -> None:
    """A rule may not fit the fleet: it waits for more updates than there are devices, say."""
    cls = STRATEGIES.find(experiment.strategy_name, source, "strategy")
    strategy = build(cls, experiment.strategy_parameters, source, "strategy")
    try:
        strategy.check(sum(group.count for group in experiment.devices))
    except ParameterError as error:
        raise ProfileError(source, f"strategy.{error.key}", error.problem) from None
    if experiment.replay.mode == "strict" and strategy.unrepeatable:
        problem = f"is strict; {experiment.strategy_name} cannot be repeated so: {strategy.unrepeatable}"
        raise ProfileError(source, "replay.mode", f"{problem}: take replay.mode = 'schedule'")
    for i, group in enumerate(experiment.devices):
        if group.on_lost_download == "old_base" and not strategy.keeps_old_base:
            problem = f"is old_base; with {experiment.strategy_name}, a device waits until a lost model is sent again"
            raise ProfileError(source, f"devices[{i}].on_lost_download", f"{problem}: take wait")


def check_ticks(group: DeviceGroup, experiment: Experiment, source: str, key: str) -> None:
    """What is said about lost transfers must fit together, and fit the rule; ``fleet`` says what follows from it."""
    strategy, interval = experiment.strategy_name, experiment.strategy_parameters.get("interval")
    if group.phi is not None and group.on_drop == "give_up":
        problem = "is give_up; an upload with phi is tried once per interval: leave it out"
        raise ProfileError(source, f"{key}.on_drop", problem)
    if group.phi is not None and None not in (group.tick, interval) and group.tick != interval:
        problem = f"is {group.tick:g}; phi is per interval, and {strategy} has one of {interval:g}: leave it out"
        raise ProfileError(source, f"{key}.tick", problem)
    if group.on_lost_download == "old_base" and group.on_drop == "give_up":
        problem = "is old_base, with on_drop = give_up; a device that gives up begins anew: take retry or next_tick"
        raise ProfileError(source, f"{key}.on_lost_download", problem)
    if (group.phi is not None or group.on_drop == "next_tick") and group.tick is None and interval is None:
        problem = (
            f"is missing; lost uploads wait for the next tick, and {strategy} has no interval: set it, or take a rule with"
            " strategy.interval (audg, psurdg)"
        )
        raise ProfileError(source, f"{key}.tick", problem)


def located_replay(experiment: Experiment, groups: Sequence[DeviceGroup], source: str, folder: Path) -> Replay:
    """With the place of the trace written out; what a replay cannot do is refused."""
    replay = experiment.replay
    if replay.trace is None:
        for key, asked in as_table(replay).items():
            if asked != getattr(Replay(), key):
                problem = f"is {asked!r}, but nothing is replayed; add --replay RUN"
                raise ProfileError(source, f"replay.{key}", problem)
        return replay
    for i, group in enumerate(groups):
        assert isinstance(group.profile, DeviceProfile)
        if group.profile.throttle not in ("pace", "none"):
            problem = f"is {group.profile.throttle!r}; a quota keeps no recorded times: a replay needs 'pace'"
            raise ProfileError(source, f"devices[{i}].profile.throttle", problem)
        if replay.mode == "strict" and group.on_drop == "give_up":
            problem = "is give_up; a strict replay knows the order of arrivals only: take replay.mode = 'schedule'"
            raise ProfileError(source, f"devices[{i}].on_drop", problem)
    for place in (Path(replay.trace), folder / replay.trace):
        if exists(place):
            return replace(replay, trace=str(place.resolve()))
    raise ProfileError(source, "replay.trace", f"is {replay.trace!r}; there is no such run folder or trace")


def check_name(name: str, source: str, key: str) -> None:
    """Run folders, logs and sockets are called by these names."""
    fit = name.isprintable() and "/" not in name and not name.startswith(".") and 0 < len(name.encode()) <= 100
    if not fit:
        raise ProfileError(
            source, key, f"is {name!r}; files are named after it: at most 100 bytes, no / and no . in front"
        )
