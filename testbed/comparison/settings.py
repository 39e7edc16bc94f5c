"""The settings of runs as flat keys and values, and the labels of groups, by the settings in which runs differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from testbed.comparison.compared_runs import ComparedRun

_MOST_NAMED = 3
_UNSET, _UNKNOWN = "unset", "?"
_SEEDS = {"seed", "data_seed", "model_seed"}
_TRANSPORT = {"transport.host", "transport.port", "transport.encrypt", "transport.message_limit"}
_NO_DIFFERENCE = {"name", "dilation", "compress", "replay.trace", "replay.mode", *_TRANSPORT, *_SEEDS}
"""Keys in which replicas of one experiment may differ. Time is emulated, so that the dilation does not matter."""
_WORDS = ("title", "source")
"""Last words of keys that only describe."""

Settings = Mapping[str, object]
"""Key, as --set names it → value. TOML has values of several types; here they are only compared and shown."""


def of_run(run: ComparedRun) -> Settings:
    """Settings of a run; the strategy's parameters come first, from the trace, which has them without a profile."""
    found = dict(_flat(run.header.parameters, "strategy"))
    found["replay"] = run.header.replay or "none"
    profile = {key: value for key, value in (run.profile or {}).items() if key != "strategy"}
    return found | {
        key: value
        for key, value in _flat(profile)
        if key not in _NO_DIFFERENCE and key.rpartition(".")[2] not in _WORDS
    }


def fleet(run: ComparedRun) -> tuple[object, ...]:
    """The known devices and scripted events: with equal seeds, two runs with equal fleets have equal faults."""
    return (run.devices, *sorted(each for each in of_run(run).items() if each[0].startswith(("devices", "events"))))


def labels(runs: Sequence[ComparedRun]) -> tuple[list[str], list[str]]:
    """The label of each run, and notes about other differences.

    A label is the strategy and the settings, without seeds, in which runs of that strategy differ. If these are many,
    as when devices were replaced, it has only as many as are needed to distinguish the groups.
    """
    tables = _completed(runs)
    named, notes, used = [""] * len(runs), list[str](), set[str]()
    for strategy in dict.fromkeys(run.header.strategy for run in runs):
        places = [place for place, run in enumerate(runs) if run.header.strategy == strategy]
        keys = _different([tables[place] for place in places])
        used.update(keys)
        if len(keys) > _MOST_NAMED:
            few = _sufficient([tables[place] for place in places], keys)
            others = [key for key in keys if key not in few]
            if others:
                notes.append(f"{strategy}: runs that differ in {', '.join(few)} also differ in {_some(others)}")
            keys = few
        short = _shortened(keys)
        texts = {key: _texts(tables[place].get(key, _UNKNOWN) for place in places) for key in keys}
        for place in places:
            listed = ", ".join(f"{short[key]}={texts[key][tables[place].get(key, _UNKNOWN)]}" for key in keys)
            named[place] = f"{strategy} ({listed})" if listed else strategy
    others = [key for key in _different(tables) if key not in used and not key.startswith(("strategy.", "replay"))]
    if others:
        groups = {group: table.get(others[0], _UNKNOWN) for group, table in zip(named, tables, strict=True)}
        distinct = _texts(groups.values())
        values = "; ".join(f"{group} {distinct[value]}" for group, value in groups.items())
        notes.append(f"not only the strategies differ, but also {_some(others)} ({others[0]}: {values})")
    return named, notes


def _texts(values: Iterable[object]) -> dict[object, str]:
    """Value → its text, with few digits unless two values would then look the same."""
    found = {value: _shown(value) for value in values}
    often = Counter(found.values())
    return {value: text if often[text] == 1 else repr(value) for value, text in found.items()}


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _flat(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    """Keys as --set names them (training.lr, devices[0].count), with their values."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _flat(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _flat(item, f"{key}[{place}]")
    else:
        yield key, value


def _completed(runs: Sequence[ComparedRun]) -> list[Settings]:
    """Settings with all keys: one that a profile lacks is unset; without a profile, unknown keys are left out."""
    tables = [of_run(run) for run in runs]
    keys = dict.fromkeys(key for table in tables for key in table)
    return [
        {key: table.get(key, _UNSET) for key in keys if key in table or run.profile is not None}
        for run, table in zip(runs, tables, strict=True)
    ]


def _different(tables: Iterable[Settings]) -> list[str]:
    """Keys with two values or more, in the order of profiles."""
    values: dict[str, set[object]] = {}
    for table in tables:
        for key, value in table.items():
            values.setdefault(key, set()).add(value)
    return [key for key, each in values.items() if len(each) > 1]


def _sufficient(tables: Sequence[Settings], keys: Sequence[str]) -> list[str]:
    """The keys that split the runs further than the keys before them."""
    chosen, parts = list[str](), 1
    for key in keys:
        split = len({tuple(table.get(each) for each in (*chosen, key)) for table in tables})
        if split > parts:
            chosen, parts = [*chosen, key], split
    return chosen


def _shortened(keys: Sequence[str]) -> dict[str, str]:
    """Key → its last word if that is unique and not in a list, else the whole key."""
    last = [key if "[" in key else key.rpartition(".")[2] for key in keys]
    return {key: word if last.count(word) == 1 else key for key, word in zip(keys, last, strict=True)}


def _some(keys: Sequence[str]) -> str:
    more = len(keys) - _MOST_NAMED
    return ", ".join(keys[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
