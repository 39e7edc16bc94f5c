"""``sweep``: all combinations of strategies, settings and seeds, one run after another."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsIndex, TypeVar

import tomli_w

from aggregator.strategies import STRATEGIES
from aggregator.strategy import Strategy
from testbed.api import experiments
from testbed.api.comparing import RunComparison, compare
from testbed.api.experiments import Profile
from testbed.api.own_classes import as_named, check_not_in_a_run
from testbed.api.run import Run
from testbed.api.running import check_main_thread
from testbed.common.by_value.object_name import ObjectName
from testbed.common.console import TerminalConsole
from testbed.common.errors import RunInterrupted, UserError
from testbed.common.parameters import as_table
from testbed.loading.overrides import written
from testbed.runs import sweep_state
from testbed.runs.stored_run import StoredRun
from testbed.runs.sweep_state import FAILED
from testbed.sweeps import sweep_cells, sweep_run
from testbed.sweeps.sweep_cells import SweepSettings

Listed = TypeVar("Listed")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRuns:
    """The runs of a sweep. The same call again runs only what is not finished."""

    folder: Path
    runs: tuple[Run, ...]
    """The finished runs, in the order of the plan."""
    failed: Mapping[str, str]
    """Name of a run that failed → why."""

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def compare(
        self, *, metric: str | None = None, lower: bool | None = None, target: float | None = None
    ) -> RunComparison:
        """Compare the finished runs, as ``testbed.compare`` does."""
        return compare(self.runs, metric=metric, lower=lower, target=target)


def sweep(
    profile: Profile,
    *,
    out: str | Path,
    strategies: Sequence[str | type[Strategy]] = (),
    seeds: SupportsIndex | Iterable[SupportsIndex] = (),
    vary: Mapping[str, Sequence[object]] | None = None,
    set: Mapping[str, object] | None = None,  # noqa: A002  the name of the command's option
    seconds: float | None = None,
    dilation: float | str | None = None,
    replay: str | Path | StoredRun | None = None,
    compress: bool = False,
    no_admission: bool = False,
    report: bool = True,
    quiet: bool = False,
    data_dir: str | Path | None = None,
) -> SweepRuns:
    """Run all combinations of strategies, settings and seeds, as the command ``sweep`` does.

    One run after another, each in a process of its own; one that fails is noted, and the sweep continues.

    Args:
        profile: as in ``run``. One that is not a file is written to ``out``.
        out: the folder of the sweep. The same call again continues a sweep that stopped.
        strategies: names or classes, with their default parameters; default: the profile's.
        seeds: how many, from 1, or which; default: the profile's.
        vary: key of the profile → the values that it takes.
        set: key of the profile → its value in every run.
        seconds, dilation, replay, compress, no_admission, report, quiet, data_dir: as in ``run``.

    Raises:
        UserError: something in the arguments or the profile prevents a run; none was started.
        RunInterrupted: Ctrl-C; finished runs are kept, and the same call continues.
    """
    check_not_in_a_run()
    check_main_thread()
    experiments.use_data_dir(data_dir)
    folder = Path(out)
    settings = SweepSettings(
        profile=_file_of(profile, folder),
        strategy=",".join(_strategy(each) for each in _listed(strategies, "strategies")) or None,
        seeds=_seeds(seeds),
        overrides=tuple(f"{key}={written(value)}" for key, value in (set or {}).items()),
        vary=tuple(
            f"{key}={','.join(map(written, _listed(values, f'vary[{key!r}]')))}" for key, values in (vary or {}).items()
        ),
        seconds=seconds,
        dilation=dilation,
        replay=None if replay is None else str(replay.path if isinstance(replay, StoredRun) else replay),
        compress=compress,
        no_admission=no_admission,
        no_report=not report,
    )
    plan = sweep_cells.plan(settings)
    with sweep_state.opened(folder, plan, ["sweep"]) as store:
        stopped = sweep_run.carry_out(store, TerminalConsole(stderr=True, quiet=quiet), settings)
    if stopped is not None:
        raise RunInterrupted(f"interrupted; finished runs are in {folder}, and the same call continues", folder)
    return SweepRuns(
        folder=folder,
        runs=tuple(Run.open(path) for path in sweep_state.finished_runs(folder)),
        failed={cell.name: cell.problem for cell in store.cells if cell.state == FAILED},
    )


def _listed(values: Iterable[Listed], what: str) -> Sequence[Listed]:
    """The values as a list. Raises UserError for a single text, whose letters would be taken one by one."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UserError(f"{what}={values!r}: takes a list; write [{values!r}]")
    return tuple(values)


def _strategy(given: str | type[Strategy]) -> str:
    named = as_named(given, STRATEGIES, "strategies")
    if not isinstance(named, str):
        raise UserError(f"strategies: {given!r} has parameters; a sweep takes names and classes: use vary for these")
    return named


def _seeds(given: SupportsIndex | Iterable[SupportsIndex]) -> str | None:
    """Seeds as the command takes them: how many, or which; None: the profile's."""
    if isinstance(given, Iterable):
        given = _listed(given, "seeds")
        return "".join(f"{operator.index(seed)}," for seed in given) or None
    return str(operator.index(given))


def _file_of(profile: Profile, folder: Path) -> Path:
    """The file of a profile; one that is not a file is written into the folder of the sweep, with all its defaults.

    Raises UserError if the folder has another profile already: it belongs to another sweep, or to a run.
    """
    if isinstance(profile, str | Path):
        return Path(profile)
    experiment, _ = experiments.load(profile, {})
    for what, name in (("task", experiment.task_name), ("strategy", experiment.strategy_name)):
        if isinstance(name, ObjectName):
            problem = f"{what}={name}: is a Python object, and a sweep starts its runs from a profile"
            raise UserError(f"{problem}; write its class to a module, or call run(…) in a loop, and compare([…])")
    place, text = folder / "profile.toml", tomli_w.dumps(as_table(experiment))
    try:
        if not place.exists():
            folder.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        elif place.read_text(encoding="utf-8") != text:
            raise UserError(f"out={folder}: has another profile.toml; choose another folder")
    except OSError as error:
        raise UserError(f"out={folder}: cannot be written to: {error.strerror}; choose another folder") from None
    return place
