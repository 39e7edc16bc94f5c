"""Checks that need more than one key of an experiment: names, strategy and fleet, lost transfers, replay.

Each function raises ProfileError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from aggregator.strategies import STRATEGIES
from testbed.common.errors import ProfileError
from testbed.common.parameters import Named, ParameterError, as_table, build
from testbed.loading.profile_files import exists
from testbed.profile.schema import DeviceGroup, DeviceProfile, Experiment, Replay, name_and_parameters
from testbed.wire.compression_method import NONE, method_of


def check_name(name: str, source: str, key: str) -> None:
    """Refuse a name that cannot be part of a file name: run folders, logs and sockets use it."""
    fit = name.isprintable() and "/" not in name and not name.startswith(".") and 0 < len(name.encode()) <= 100
    if not fit:
        raise ProfileError(
            source,
            key,
            f"is {name!r}; it is used for file names: at most 100 bytes, without / and without . at the start",
        )


def check_selection(strategy: Named, source: str) -> None:
    """Refuse to limit the devices in flight of a strategy that selects devices itself: these keys are unknown to it."""
    name, parameters = name_and_parameters(strategy)
    given = next((key for key in ("in_flight", "sampling") if key in parameters), None)
    own = STRATEGIES.find(name, source, "strategy").own_selection
    if given and own:
        raise ProfileError(source, f"strategy.{given}", f"is {parameters[given]}; {name} {own}: leave it out")


def check_strategy(experiment: Experiment, source: str) -> None:
    """Refuse a strategy that does not fit the fleet: one that waits for more updates than there are devices, say."""
    cls = STRATEGIES.find(experiment.strategy_name, source, "strategy")
    strategy = build(cls, experiment.strategy_parameters, source, "strategy")
    try:
        strategy.check(sum(group.count for group in experiment.devices))
    except ParameterError as error:
        raise ProfileError(source, f"strategy.{error.key}", error.problem) from None
    if experiment.replay.mode == "strict" and strategy.unrepeatable:
        problem = f"is strict; {experiment.strategy_name} cannot be replayed strictly: {strategy.unrepeatable}"
        raise ProfileError(source, "replay.mode", f"{problem}: use replay.mode = 'schedule'")
    if strategy.sets_steps and experiment.training.epochs:
        problem = (
            f"is {experiment.training.epochs:g}; {experiment.strategy_name} sets the local steps of each job itself"
        )
        raise ProfileError(source, "training.epochs", f"{problem}: use training.steps")
    bound = experiment.aggregator
    if bound.clip is not None and bound.on_clip == "scale" and strategy.last_applied("") is not None:
        problem = "is scale; devices upload differences to what the aggregator has, which must not be changed"
        raise ProfileError(source, "aggregator.on_clip", f"{problem}: use refuse, or another strategy.memory")
    _check_compression(experiment, source, differences=strategy.last_applied("") is not None)
    for i, group in enumerate(experiment.devices):
        if group.on_lost_download == "old_base" and not strategy.keeps_old_base:
            problem = f"is old_base; with {experiment.strategy_name}, a device waits until a lost model is sent again"
            raise ProfileError(source, f"devices[{i}].on_lost_download", f"{problem}: use wait")


def _check_compression(experiment: Experiment, source: str, *, differences: bool) -> None:
    """Refuse an unknown method of compression, and any if devices upload ``differences`` to what they sent before."""
    given = {f"devices[{i}].compress_updates": group.compress_updates for i, group in enumerate(experiment.devices)}
    for key, text in {"compress_updates": experiment.compress_updates, **given}.items():
        try:
            method = method_of(NONE if text is None else text)
        except ValueError as error:
            raise ProfileError(source, key, f"is {text!r}; {error}") from None
        if method.name != NONE and differences:
            problem = (
                f"is {text}; devices upload differences to what the aggregator has, which contain what was not sent"
                " before: the residual would count it twice"
            )
            raise ProfileError(source, key, f"{problem}: use none, or another strategy.memory")


def check_ticks(group: DeviceGroup, experiment: Experiment, source: str, key: str) -> None:
    """Refuse settings for lost transfers that contradict each other or the strategy. ``fleet`` applies them."""
    strategy, interval = experiment.strategy_name, experiment.strategy_parameters.get("interval")
    if group.phi is not None and group.on_drop == "give_up":
        problem = "is give_up; an upload with phi is tried once per interval: leave it out"
        raise ProfileError(source, f"{key}.on_drop", problem)
    if group.phi is not None and None not in (group.tick, interval) and group.tick != interval:
        problem = f"is {group.tick:g}; phi is per interval, and that of {strategy} is {interval:g}: leave it out"
        raise ProfileError(source, f"{key}.tick", problem)
    if group.on_lost_download == "old_base" and group.on_drop == "give_up":
        problem = "is old_base, but with on_drop = give_up a lost upload needs a new model: use retry or next_tick"
        raise ProfileError(source, f"{key}.on_lost_download", problem)
    if (group.phi is not None or group.on_drop == "next_tick") and group.tick is None and interval is None:
        problem = (
            f"is missing; lost uploads wait for the next tick, and {strategy} has no interval: set it, or use a"
            " strategy with an interval (audg, psurdg)"
        )
        raise ProfileError(source, f"{key}.tick", problem)


def located_replay(experiment: Experiment, groups: Sequence[DeviceGroup], source: str, folder: Path) -> Replay:
    """Return the replay with the absolute path of its trace. Refuse an experiment that cannot be replayed."""
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
            problem = f"is {group.profile.throttle!r}; a quota cannot meet recorded times: a replay needs 'pace'"
            raise ProfileError(source, f"devices[{i}].profile.throttle", problem)
        if replay.mode == "strict" and group.on_drop == "give_up":
            problem = "is give_up; a strict replay knows only the order of arrivals: use replay.mode = 'schedule'"
            raise ProfileError(source, f"devices[{i}].on_drop", problem)
    for place in (Path(replay.trace), folder / replay.trace):
        if exists(place):
            return replace(replay, trace=str(place.resolve()))
    raise ProfileError(source, "replay.trace", f"is {replay.trace!r}; there is no such run folder or trace")
