"""What a run was made of, built again from its folder: experiment, fleet, task and strategy."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from aggregator.engine.actions import Send
from aggregator.engine.engine import Engine
from aggregator.engine.ticket_register import Record
from aggregator.process import assembly
from aggregator.strategy import Strategy
from testbed.common.errors import UserError
from testbed.common.finders import user_modules
from testbed.common.parameters import Named
from testbed.history import trace
from testbed.host import kernel
from testbed.learning import setup
from testbed.learning.training.task import Task
from testbed.profile import fleet
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment, is_mark, name_and_parameters
from testbed.runs import resuming
from testbed.runs.results.run_meta import Meta
from testbed.runs.stored_run import StoredRun

_ARITHMETIC = ("torch", "numpy", "scikit-learn")
"""Packages that compute models: another version may round differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """Everything but the trace."""

    experiment: Experiment
    devices: tuple[DeviceSpec, ...]
    task: Task

    def strategy(self) -> Strategy:
        """A new strategy with the parameters of the experiment."""
        return assembly.strategy_of(self.experiment)

    def engine(self, send: Send, record: Record) -> tuple[Engine, Strategy]:
        """A new engine, before any device has joined, and its strategy."""
        strategy = self.strategy()
        return assembly.engine_of(self.experiment, strategy, self.devices, self.task, send, record), strategy

    @property
    def keeps_base(self) -> frozenset[str]:
        """Devices that train on the model that they have if a download is lost."""
        return frozenset(spec.name for spec in self.devices if spec.on_lost_download == "old_base")


def meta_of(run: StoredRun) -> Meta:
    """The file meta.json of a run. Raises UserError if there is none."""
    if run.folder is None:
        raise UserError(f"{run.path}: is a trace alone, without the profile of its run; name the folder of the run")
    if run.meta is None or run.meta.calibration is None:
        raise UserError(f"{run.path}: has no complete meta.json; restore it from a copy, or run the experiment again")
    return run.meta


def assemble(run: StoredRun, objects: Mapping[str, Named], header: trace.Header) -> RunParts:
    """Build the parts of a run. Raises UserError if its profile, its data or its code is missing.

    ``objects``: the task and the strategy, by these keys, if they were Python objects. With a profile that does not
    agree with the ``header`` of the trace, other data would be no news: the header departs.
    """
    meta, experiment = meta_of(run), run.profile
    if experiment is None:
        raise UserError(f"{run.path}: has no profile.toml; restore it from a copy, or run the experiment again")
    experiment = _with_objects(experiment, objects, run)
    user_modules.FINDER.search_in(Path.cwd(), resuming.source(run.path).parent)
    assert meta.calibration is not None
    task = setup.entry(experiment.task_name, experiment.task_parameters, experiment.name)
    with setup.as_profile_errors(experiment.name):
        opened = task.open(setup.setting(experiment))
    agrees = expected_header(experiment, header) == header
    if agrees and not differences(meta):  # elsewhere, generated data may be rounded differently
        resuming.check_data(run.path, experiment, meta.calibration.data_sha256, opened.data_sha256)
    if agrees and meta.calibration.task_digest and opened.digest() != meta.calibration.task_digest:
        problem = "has other data, another split or another first model than that of the run"
        raise UserError(f"{run.path}: task={experiment.task_name} {problem}; make it as it was made for the run")
    return RunParts(experiment=experiment, devices=tuple(fleet.concrete(experiment, meta.calibration)), task=opened)


def _with_objects(experiment: Experiment, objects: Mapping[str, Named], run: StoredRun) -> Experiment:
    """Return the experiment with the Python objects that it was run with. Raises UserError if one is missing."""
    for kind in ("task", "strategy"):
        stored: Named = getattr(experiment, kind)
        was_object = isinstance(stored, dict) and is_mark("object", stored.get("object"))
        if not was_object and kind in objects:
            raise UserError(f"{run.path}: its {kind} was named in its profile, which is enough: leave out {kind}=")
        if not was_object:
            continue
        recorded, parameters = name_and_parameters(stored)
        if kind not in objects:
            call = f"testbed.Run.open({str(run.path)!r}).verify({kind}=…)"
            raise UserError(f"{run.path}: its {kind} {recorded} was a Python object; verify it in Python: {call}")
        name, _ = name_and_parameters(objects[kind])
        if str(name) != recorded:
            raise UserError(f"{run.path}: its {kind} was of {recorded}, and {kind}= is of {name}; give the same")
        table = {"name": name, "object": True, **parameters}
        experiment = replace(experiment, task=table) if kind == "task" else replace(experiment, strategy=table)
    return experiment


def expected_header(experiment: Experiment, found: trace.Header) -> trace.Header:
    """The header that this experiment has; what only the host knows is as it was found."""
    return assembly.header_of(
        experiment,
        dilation=found.dilation,
        demand=found.demand,
        pressure=found.pressure,
        survey_age=found.survey_age,
        host=found.host,
        started=found.started,
    )


def differences(meta: Meta) -> list[str]:
    """What differs between the host and the packages of a run and those of this process, if that may change bits."""
    here = kernel.processor()
    found = [] if meta.host.processor == here else [f"processor {meta.host.processor!r} there, {here!r} here"]
    recorded = {package: meta.packages[package] for package in _ARITHMETIC if package in meta.packages}
    present = {package: importlib.metadata.version(package) for package in recorded}
    return found + [
        f"{package} {version} there, {present[package]} here"
        for package, version in recorded.items()
        if version != present[package]
    ]
