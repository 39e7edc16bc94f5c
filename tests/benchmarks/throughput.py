"""Updates per second through the whole aggregator, against a raw ZeroMQ receiver that adds in place.

Both receivers have the same traffic: each update is answered with a model of the same size, to senders
that do not train. The aggregator decodes, checks, keeps tickets and past models, runs the strategy and writes the
trace; the raw receiver adds the frame to an accumulator. The second figure is stricter: updates per second of CPU that
the receiving process used after its preparation, which does not hide behind the speed of the senders. Takes 2.5
minutes; ``--quick``: 30 s.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zmq

from aggregator.process.aggregator_config import AggregatorConfig
from aggregator.process.main import AggregatorProcess
from testbed.common.parameters import build
from testbed.host import cores
from testbed.host.cores import keep_freed_memory, settle
from testbed.host.priority import Priority
from testbed.host.survey import Survey
from testbed.loading import profile_loader
from testbed.planning import planner
from testbed.profile.schema import Experiment
from testbed.wire.codec import decode, encode, largest_frame
from testbed.wire.messages import EVALUATOR, STOPPED, Heartbeat, Hello, Message, Score, Snapshot, Stop, Train, Update
from testbed.wire.sockets import closing_peer
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_least, median

_SIZES = {"87 KB": 21_840, "2.65 MB": 663_160}
_AIM_PER_SECOND = 0.70
_AIM_PER_CPU = {"87 KB": 0.65, "2.65 MB": 0.70}
_SENDERS = 16
_SECONDS = 4.0
TURNS = 3
_fork = multiprocessing.get_context("fork")


def measure(options: Options) -> Iterator[Figure]:
    gc.collect()
    gc.freeze()  # as the template does before it forks an aggregator
    for label, size in _SIZES.items():
        for strategy in ("fedavg", "fedasync"):
            ours_s, raw_s, wall, cpu = [], [], [], []
            for _ in range(options.repeats(TURNS)):  # alternately: other load on the host then affects both
                raw, ours = _run(size, _raw_receiver), _run(size, _aggregator, strategy)
                ours_s.append(ours["updates"] / ours["seconds"])
                raw_s.append(raw["updates"] / raw["seconds"])
                wall.append(ours_s[-1] / raw_s[-1])
                cpu.append((ours["updates"] / ours["cpu"]) / (raw["updates"] / raw["cpu"]))
            row = f"{label}, {strategy}"
            yield median(row, "ours", ours_s, unit="updates/s")
            yield median(row, "raw receiver", raw_s, unit="updates/s")
            yield median(row, "ours ÷ raw, per second", wall, aim=at_least(_AIM_PER_SECOND))
            yield median(row, "ours ÷ raw, per CPU second", cpu, aim=at_least(_AIM_PER_CPU[label]))


def _run(size: int, receiver: Callable[..., None], *extra: str) -> dict[str, float]:
    """Start the receiver and the senders. Returns the measurements of the receiver."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        senders = _raw_sender if receiver is _raw_receiver else _sender
        processes = [_fork.Process(target=receiver, args=(size, folder, *extra))]
        processes += [_fork.Process(target=senders, args=(size, folder, index)) for index in range(_SENDERS)]
        if senders is _sender:
            processes.append(_fork.Process(target=_evaluator, args=(size, folder)))
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        measured: dict[str, float] = json.loads((Path(folder) / "result.json").read_text(encoding="utf-8"))
        return measured


def _report(folder: str, updates: int, seconds: float, cpu: float) -> None:
    result = {"updates": updates, "seconds": seconds, "cpu": cpu}
    (Path(folder) / "result.json").write_text(json.dumps(result), encoding="utf-8")


# ---- ours


class _Sized:
    """Replaces the task; the aggregator uses only these methods."""

    def __init__(self, size: int) -> None:
        self.size = size

    def initial(self) -> Any:
        return np.zeros(self.size, np.float32)

    def tensors(self, vector: Any) -> dict[str, Any]:
        return {"model": vector}


def _aggregator(size: int, folder: str, strategy: str) -> None:
    table = {
        "name": "bench",
        "strategy": strategy,
        "devices": [{"profile": "host", "link": "none", "count": _SENDERS}],
        "stop": {"seconds": _SECONDS},
        "evaluation": {"every": 1e6},
    }
    experiment = profile_loader.resolve(build(Experiment, table, "bench"), "bench", Path())
    core_plan = cores.roles().apart(_SENDERS)
    settle((core_plan.aggregator,), Priority.AGGREGATOR)
    keep_freed_memory()
    survey = Survey(parameters=size, samples=(100,) * _SENDERS)
    planned = planner.plan(experiment, survey, core_plan, 1.0)
    config = AggregatorConfig(
        experiment=experiment,
        devices=planned.devices,
        dilation=1.0,
        demand=planned.demand,
        pressure=None,
        canaries=(),
        core=core_plan.aggregator,
        endpoint=f"ipc://{folder}/hub",
        run_folder=folder,
        status_file=f"{folder}/status.json",
    )
    process: Any = AggregatorProcess(config, _Sized(size))  # type: ignore[arg-type]
    prepared = time.process_time()
    process.run()
    _report(folder, process._engine.tally.applied, _SECONDS, time.process_time() - prepared)


def _sender(size: int, folder: str, index: int) -> None:
    settle(cores.roles().apart(_SENDERS).cores_of(index), Priority.DEVICE)
    name = f"host-{index + 1}"
    update = Update(
        device=name,
        ticket=0,
        version=0,
        delta=_delta(size),
        samples=100,
        steps=1,
        started=0.0,
        finished=0.0,
        due=0.0,
        loss=0.0,
    )

    def answer(message: Message) -> Message | None:
        if not isinstance(message, Train):
            return None
        return msgspec.structs.replace(update, ticket=message.ticket, version=message.version)

    _converse(folder, name, size, answer)


def _evaluator(size: int, folder: str) -> None:
    def answer(message: Message) -> Message | None:
        if not isinstance(message, Snapshot):
            return None
        return Score(version=message.version, made=message.made, metrics={})

    _converse(folder, EVALUATOR, size, answer)


def _converse(folder: str, name: str, size: int, answer: Callable[[Message], Message | None]) -> None:
    """Send Hello, answer messages, and end at Stop."""
    with closing_peer(f"ipc://{folder}/hub", name, max_bytes=largest_frame(size)) as peer:
        peer.send(encode(Hello(device=name, pid=os.getpid(), cores=(1,), samples=100)), timeout=10.0)
        message: Message | None = None
        while not isinstance(message, Stop):
            frames = peer.receive(10.0)
            message = decode(frames, size) if frames is not None else None
            reply = answer(message) if message is not None else None
            if reply is not None:
                peer.send(encode(reply))
        peer.send(encode(Heartbeat(device=name, state=STOPPED)))


# ---- the raw receiver


def _raw_receiver(size: int, folder: str) -> None:
    settle((cores.roles().aggregator,), Priority.AGGREGATOR)
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.bind(f"ipc://{folder}/hub")
    model, total = np.zeros(size, np.float32), np.zeros(size, np.float32)
    peers = [router.recv_multipart()[0] for _ in range(_SENDERS)]
    for peer in peers:
        router.send_multipart([peer, model], copy=False)
    updates, began, prepared = 0, time.monotonic(), time.process_time()
    while time.monotonic() - began < _SECONDS:
        peer, frame = router.recv_multipart(copy=False)
        total += np.frombuffer(frame.buffer, np.float32)
        router.send_multipart([peer.bytes, model], copy=False)
        updates += 1
    _report(folder, updates, time.monotonic() - began, time.process_time() - prepared)
    for peer in peers:
        router.send_multipart([peer, b""])
    router.close(linger=2000)
    context.term()


def _raw_sender(size: int, folder: str, index: int) -> None:
    settle(cores.roles().apart(_SENDERS).cores_of(index), Priority.DEVICE)
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.connect(f"ipc://{folder}/hub")
    dealer.send(b"hello")
    delta = _delta(size)
    while len(dealer.recv(copy=False).buffer):
        dealer.send(delta, copy=False)
    dealer.close(linger=0)
    context.term()


def _delta(size: int) -> Any:
    return np.full(size, 1e-6, np.float32)
