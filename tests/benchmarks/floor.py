"""The floor: what ZeroMQ and the training code alone can do. No tickets, no trace, no strategy, no state machine.

Real processes forked from the same template with the same training step. Nothing is pinned and all have the same
priority: the kernel spreads them over all cores, as no core plan can do better for work that never waits.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from testbed.host.private_folder import private_folder
from testbed.processes.preparation import prepared_template
from testbed.processes.templates import forkserver, template
from testbed.processes.templates.forkserver import Exited
from testbed.processes.templates.template import TemplateRequest
from testbed.wire.training_job import Job

_HWM = 8
_MIXING = 0.6
WARM_UP_UPDATES = 3
"""Updates of each device that are not measured: its first steps copy the pages it shares with the template."""
JOB = Job(steps=1, batch=32, lr=0.01)


@dataclass(frozen=True, kw_only=True)
class FloorAggregator:
    endpoint: str
    devices: int
    synchronous: bool
    seconds: float
    result: str


@dataclass(frozen=True, kw_only=True)
class FloorDevice:
    endpoint: str
    index: int


def updates_per_second(*, devices: int, synchronous: bool, network: str, seconds: float) -> float:
    """Run the bare loop with ``devices`` processes."""
    with tempfile.TemporaryDirectory(prefix="floor-") as name:
        folder = Path(name)
        order = TemplateRequest(
            source="floor",
            task="tests.benchmarks.task:SharedDigits",
            parameters={"model": network},
            devices=devices,
            data_seed=1,
            model_seed=1,
            job=JOB,
            crowd={},
            flops=False,
            strategy="fedavg",
        )
        endpoint, result = f"ipc://{folder}/hub", folder / "result.json"
        configs: list[FloorAggregator | FloorDevice] = [
            FloorAggregator(
                endpoint=endpoint,
                devices=devices,
                synchronous=synchronous,
                seconds=seconds,
                result=str(result),
            )
        ]
        configs += [FloorDevice(endpoint=endpoint, index=index) for index in range(devices)]
        with private_folder() as private, prepared_template(private, order) as prepared:
            prepared.survey(lambda: False)
            [run_template, *others] = prepared.run_templates(1)
            assert not others
            run_template.request([forkserver.order(f"floor-{i}", enter, config) for i, config in enumerate(configs)])
            left = len(configs)
            while left:
                left -= isinstance(run_template.channel.receive()[0], Exited)
            run_template.channel.close()
        found: float = json.loads(result.read_text(encoding="utf-8"))
        return found


def enter(config: FloorAggregator | FloorDevice) -> None:
    """The first code of a forked process."""
    if isinstance(config, FloorAggregator):
        aggregate(config, template.TASK)
    else:
        train(config, template.TASK)


def aggregate(config: FloorAggregator, task: Any) -> None:
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.SNDHWM, _HWM)
    router.setsockopt(zmq.RCVHWM, _HWM)
    router.bind(config.endpoint)
    peers = [router.recv_multipart()[0] for _ in range(config.devices)]
    loop = _rounds if config.synchronous else _stream
    speed = loop(router, peers, task.initial(), config.seconds)
    for peer in peers:
        router.send_multipart([peer, b""])
    # written last: if the file exists, the loop is over
    Path(config.result).write_text(json.dumps(speed), encoding="utf-8")
    router.close(linger=2000)
    context.term()


def _stream(router: Any, peers: list[bytes], model: Any, seconds: float) -> float:
    """Add each delta in place, send the model back to its sender."""
    for peer in peers:
        router.send_multipart([peer, model.copy()], copy=False)

    def once() -> int:
        peer, frame = router.recv_multipart(copy=False)
        model.__iadd__(np.float32(_MIXING) * np.frombuffer(frame.buffer, np.float32))
        router.send_multipart([peer.bytes, model.copy()], copy=False)
        return 1

    return _updates_per_second(once, len(peers), seconds)


def _rounds(router: Any, peers: list[bytes], model: Any, seconds: float) -> float:
    """Add all deltas in place, send the model to all."""

    def once() -> int:
        copy = model.copy()
        for peer in peers:
            router.send_multipart([peer, copy], copy=False)
        for _ in peers:
            frame = router.recv_multipart(copy=False)[1]
            model.__iadd__(np.float32(1 / len(peers)) * np.frombuffer(frame.buffer, np.float32))
        return len(peers)

    return _updates_per_second(once, len(peers), seconds)


def _updates_per_second(once: Callable[[], int], devices: int, seconds: float) -> float:
    unmeasured = WARM_UP_UPDATES * devices
    while unmeasured > 0:
        unmeasured -= once()
    began, updates = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        updates += once()
    return updates / (time.monotonic() - began)


def train(config: FloorDevice, task: Any) -> None:
    from devices.compute.job_steps import training  # the same training as ours
    from testbed.learning.training.task import VectorJob

    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.ROUTING_ID, f"device-{config.index}".encode())
    dealer.connect(config.endpoint)
    dealer.send(b"hello")
    rng = np.random.default_rng(config.index)
    while True:
        frame = dealer.recv(copy=False)
        if len(frame.buffer) == 0:
            break
        base, samples = np.frombuffer(frame.buffer, np.float32), task.shards[config.index]
        job = VectorJob(base=base, job=JOB, device=config.index, number=0, samples=samples, rng=rng, memory={})
        steps = training(task, job)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                dealer.send(end.value - base, copy=False)
                break
    dealer.close(linger=0)
    context.term()
