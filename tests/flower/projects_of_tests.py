"""Opens the Flower projects of these tests, and writes small ones that do something wrong."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from devices.compute.job_steps import training
from testbed.learning.flower.flower_task import FlowerTask
from testbed.learning.tasks.flower_project import FlowerApp
from testbed.learning.tasks.setting import Setting
from testbed.learning.training.task import Memory, VectorJob
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

PROJECTS = Path(__file__).parent / "projects"
JOB = Job(steps=1, batch=0)
_numbers = itertools.count()

SERVER = """
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg, {strategy}

app = ServerApp()

@app.main()
def main(grid, context):
    {main}
"""
START = "{strategy}().start(grid=grid, initial_arrays=ArrayRecord([np.zeros(3)]))"
CLIENT = """
import os, socket, subprocess, threading, time
import numpy as np
from flwr.app import ArrayRecord, MetricRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp({app})

def reply(msg, arrays, **metrics):
    content = RecordDict({{"metrics": MetricRecord(metrics)}})
    if arrays is not None:
        content["arrays"] = ArrayRecord(arrays)
    return Message(content, reply_to=msg)

@app.train()
def train(msg, context):
    model = msg.content["arrays"].to_numpy_ndarrays()[0]
    {train}
"""
GOOD = 'return reply(msg, [model + 1], **{"num-examples": 5})'


def open_project(folder: Path, devices: int = 3, **parameters: Any) -> FlowerTask:
    opened = FlowerApp(project=str(folder), **parameters).open(Setting(devices=devices, data_seed=1, model_seed=1))
    assert isinstance(opened, FlowerTask)
    return opened


def write_project(
    folder: Path, *, train: str = GOOD, main: str = START, strategy: str = "FedAvg", app: str = "", extra: str = ""
) -> Path:
    """Write a project of one package, which no other test has imported, and return its folder."""
    name = f"written_{next(_numbers)}"
    package = folder / name
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "written"\n[tool.flwr.app.components]\nserverapp = "{name}.server:app"\n'
        f'clientapp = "{name}.client:app"\n{extra}',
        encoding="utf-8",
    )
    server = SERVER.format(strategy=strategy, main=main.replace("{strategy}", strategy))
    (package / "server.py").write_text(server, encoding="utf-8")
    (package / "client.py").write_text(CLIENT.format(train=train, app=app), encoding="utf-8")
    return folder


def trained(
    task: FlowerTask, device: int, base: Vector, *, number: int = 0, job: Job = JOB, memory: Memory | None = None
) -> tuple[list[float], Vector]:
    """Compute a job as a device does; return its losses and the new model."""
    work = VectorJob(
        base=base,
        job=job,
        device=device,
        number=number,
        samples=task.shards[device],
        rng=np.random.default_rng([7, device, number]),
        memory={} if memory is None else memory,
    )
    steps, losses = training(task, work), list[float]()
    while True:
        try:
            losses.append(next(steps))
        except StopIteration as end:
            return losses, end.value
