"""What runs were told to do, as flat keys and values; and which of these tell groups of runs apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from testbed.compare.compared_runs import ComparedRun

_MOST_NAMED = 3
_UNSET, _UNKNOWN = "unset", "?"
_SEEDS = {"seed", "data_seed", "model_seed"}
_TRANSPORT = {"transport.host", "transport.port", "transport.encrypt", "transport.rate"}
_NO_DIFFERENCE = {"name", "dilation", "compress", "replay.trace", "replay.mode", *_TRANSPORT, *_SEEDS}
"""Keys in which replicas of one experiment may differ. Time is emulated, so that the dilation does not matter."""
_WORDS = ("title", "source")
"""Last words of keys that only explain."""

Table = Mapping[str, Any]
"""Key, as --set would name it → value."""


def of_run(run: ComparedRun) -> dict[str, Any]:
    """The parameters of the rule come first, and from the trace, which has them even where there is no profile."""
    found = dict(_flat(run.header.parameters, "strategy"))
    found["replay"] = run.header.replay or "none"
    profile = {key: value for key, value in (run.profile or {}).items() if key != "strategy"}
    return found | {
        key: value
        for key, value in _flat(profile)
        if key not in _NO_DIFFERENCE and key.rpartition(".")[2] not in _WORDS
    }


def fleet(run: ComparedRun) -> tuple[object, ...]:
    """Who was there and what was to befall them, as far as it is known: with one seed, two such runs met one fate."""
    return (run.devices, *sorted(each for each in of_run(run).items() if each[0].startswith(("devices", "events"))))


def labels(runs: Sequence[ComparedRun]) -> tuple[list[str], list[str]]:
    """What each run is called: its rule, and what sets it apart from other runs of that rule. Seeds do not.

    Then notes about what else differs. Where more than a few settings do, as when a device is replaced by another,
    only as many are in the labels as it takes to tell the groups apart.
    """
    tables = _completed(runs)
    named, notes, used = [""] * len(runs), list[str](), set[str]()
    for strategy in dict.fromkeys(run.header.strategy for run in runs):
        places = [place for place, run in enumerate(runs) if run.header.strategy == strategy]
        keys = _different([tables[place] for place in places])
        used.update(keys)
        if len(keys) > _MOST_NAMED:
            few = _telling([tables[place] for place in places], keys)
            others = [key for key in keys if key not in few]
            if others:
                notes.append(f"{strategy}: runs that differ in {', '.join(few)} differ in {_some(others)} as well")
            keys = few
        short = _shortened(keys)
        texts = {key: _texts(tables[place].get(key, _UNKNOWN) for place in places) for key in keys}
        for place in places:
            told = ", ".join(f"{short[key]}={texts[key][tables[place].get(key, _UNKNOWN)]}" for key in keys)
            named[place] = f"{strategy} ({told})" if told else strategy
    beside = [key for key in _different(tables) if key not in used and not key.startswith(("strategy.", "replay"))]
    if beside:
        groups = {group: table.get(beside[0], _UNKNOWN) for group, table in zip(named, tables, strict=True)}
        told_apart = _texts(groups.values())
        values = "; ".join(f"{group} {told_apart[value]}" for group, value in groups.items())
        notes.append(f"not only the rules differ, but {_some(beside)} as well ({beside[0]}: {values})")
    return named, notes


def _texts(values: Iterable[Any]) -> dict[Any, str]:
    """Value → how it is shown: with few digits, unless another one would look the same."""
    found = {value: _shown(value) for value in values}
    often = Counter(found.values())
    return {value: text if often[text] == 1 else repr(value) for value, text in found.items()}


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """As --set would name them: training.lr, devices[0].count."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _flat(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _flat(item, f"{key}[{place}]")
    else:
        yield key, value


def _completed(runs: Sequence[ComparedRun]) -> list[Table]:
    """A key that a profile lacks is unset; of a run without a profile it is not known, and differs from nothing."""
    tables = [of_run(run) for run in runs]
    keys = dict.fromkeys(key for table in tables for key in table)
    return [
        {key: table.get(key, _UNSET) for key in keys if key in table or run.profile is not None}
        for run, table in zip(runs, tables, strict=True)
    ]


def _different(tables: Iterable[Table]) -> list[str]:
    """Keys with two values or more, in the order of profiles."""
    values: dict[str, set[Any]] = {}
    for table in tables:
        for key, value in table.items():
            values.setdefault(key, set()).add(value)
    return [key for key, each in values.items() if len(each) > 1]


def _telling(tables: Sequence[Table], keys: Sequence[str]) -> list[str]:
    """Of these keys, those that split the runs further than the ones before them."""
    chosen, parts = list[str](), 1
    for key in keys:
        split = len({tuple(table.get(each) for each in (*chosen, key)) for table in tables})
        if split > parts:
            chosen, parts = [*chosen, key], split
    return chosen


def _shortened(keys: Sequence[str]) -> dict[str, str]:
    """The last word of a key, where that is enough; of one out of a list it never is."""
    last = [key if "[" in key else key.rpartition(".")[2] for key in keys]
    return {key: word if last.count(word) == 1 else key for key, word in zip(keys, last, strict=True)}


def _some(keys: Sequence[str]) -> str:
    more = len(keys) - _MOST_NAMED
    return ", ".join(keys[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
