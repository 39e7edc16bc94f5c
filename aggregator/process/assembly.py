"""Builds the parts of the aggregator process that depend on the experiment: strategy, peers, forecast, ending."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import numpy as np

from aggregator.connections.lost_devices import LostDevices
from aggregator.connections.peers import Peers
from aggregator.connections.scripted_deaths import ScriptedDeaths
from aggregator.course.ending import Ending
from aggregator.course.evaluation import EvaluationQueue
from aggregator.course.message_handler import FleetPeers, MessageHandler
from aggregator.course.recorded_order import RecordedOrder
from aggregator.engine.actions import Send
from aggregator.engine.arrivals import Arrivals
from aggregator.engine.engine import Engine, NoteCall
from aggregator.engine.forecast import CellForecast
from aggregator.engine.ticket_register import Record
from aggregator.process.aggregator_config import AggregatorConfig
from aggregator.strategies import STRATEGIES
from aggregator.strategy import Strategy
from testbed.common.parameters import build
from testbed.emulation.recorded import PreparedReplay, read_arrivals
from testbed.history import trace
from testbed.host.priority import Policy
from testbed.learning.training.task import Task
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment, StopWhen
from testbed.wire.io_thread import IoPolicy


def peers_of(config: AggregatorConfig, size: int) -> Peers:
    """Return the peers of the run, and open its endpoint. ``size``: numbers in a model."""
    dead = config.resume.dead if config.resume is not None else frozenset()
    # a process that interrupts the devices on its core would still wait for a batch task to move its frames
    io = IoPolicy() if config.policy is Policy.NICE else None
    return Peers(config.devices, config.canaries, config.endpoint, size, allow=config.allow, dead=dead, io=io)


def strategy_of(experiment: Experiment) -> Strategy:
    """Return the strategy of an experiment with its parameters."""
    cls = STRATEGIES.find(experiment.strategy_name, experiment.name, "strategy")
    strategy: Strategy = build(cls, experiment.strategy_parameters, experiment.name, "strategy")
    return strategy


def header_of(
    experiment: Experiment,
    *,
    dilation: float,
    demand: float,
    pressure: float | None,
    survey_age: float | None,
    host: str,
    started: str,
) -> trace.Header:
    """Return the first event of a run: what the profile says, and what only its host knows."""
    return trace.Header(
        t=0.0,
        schema=trace.SCHEMA,
        name=experiment.name,
        strategy=str(experiment.strategy_name),
        parameters=experiment.strategy_parameters,
        seed=experiment.seed,
        data_seed=experiment.data_seed,
        model_seed=experiment.model_seed,
        dilation=dilation,
        host=host,
        replay=experiment.replay.mode if experiment.replay.trace else "",
        demand=demand,
        pressure=pressure,
        survey_age=survey_age,
        clip=experiment.aggregator.clip,
        on_clip="" if experiment.aggregator.clip is None else experiment.aggregator.on_clip,
        started=started,
        clock=experiment.clock,
        compute=experiment.compute,
    )


def forecast_of(experiment: Experiment, devices: Iterable[DeviceSpec], task: Task) -> CellForecast | None:
    """Return the forecast for the radio cell of the experiment; None if it has none."""
    cell, fleet = experiment.cell, {device.name: device for device in devices}
    if cell is None:
        return None
    samples = {name: len(task.shards[device.index]) for name, device in fleet.items()}
    return CellForecast(cell, experiment.seed, fleet, samples, 4 * task.size)


def engine_of(
    experiment: Experiment,
    strategy: Strategy,
    devices: Collection[DeviceSpec],
    task: Task,
    send: Send,
    record: Record,
    note_call: NoteCall = lambda event: None,
) -> Engine:
    """Return the engine of an experiment, before any device has joined."""
    return Engine(
        strategy,
        task.initial(),
        job=experiment.training,
        random=np.random.default_rng([experiment.seed, 3]),
        send=send,
        record=record,
        forecast=forecast_of(experiment, devices, task),
        truth=lambda: true_groups(devices, task),
        bound=experiment.aggregator,
        note_call=note_call,
    )


def arrivals_of(experiment: Experiment, recorded: PreparedReplay | None) -> Arrivals | RecordedOrder:
    """Return the recorded order for a strict replay, else arrivals in the order of their due moments."""
    if recorded is None or experiment.replay.mode != "strict":
        return Arrivals()
    return RecordedOrder(read_arrivals(Path(recorded.arrivals)), recorded.wakes)


def handler_of(
    peers: FleetPeers,
    engine: Engine,
    evaluation: EvaluationQueue,
    lost: Callable[[ScriptedDeaths], LostDevices],
    ending: Ending,
    record: Callable[[trace.Event], None],
    arrivals: Arrivals | RecordedOrder,
) -> MessageHandler:
    """Return what gives messages their meaning. ``lost`` makes what finds lost devices."""
    deaths = ScriptedDeaths(peers.fleet.values(), record)
    return MessageHandler(peers, engine, evaluation, lost(deaths), deaths, ending, record, arrivals)


def ending_of(experiment: Experiment, recorded: PreparedReplay | None) -> Ending:
    """Return the conditions for the end of the run. A strict replay ends where the recorded run did."""
    if recorded is None:
        return Ending(experiment.stop)
    if experiment.replay.mode == "strict":
        return Ending(StopWhen())
    return Ending(experiment.stop, recorded.jobs if experiment.replay.end == "stop" else None)


def true_groups(fleet: Iterable[DeviceSpec], task: Task) -> dict[str, tuple[int, ...]] | None:
    """Return device → the labels in its data; None if the data has no labels."""
    labels = task.labels
    return None if labels is None else {spec.name: labels[spec.index] for spec in fleet}
