"""FedLab on the work of the race, in the environment of FedLab: of our packages it has only torch and numpy.

Real processes through FedLab's public classes: one server (rank 0) and one process for each client, forked from this
one after its imports. What we add is what its users add: a trainer with one SGD step, and a handler that counts.
Choices that favour FedLab: its log messages are off, and the step uses no DataLoader and no ``torch.optim``.

FedLab imports torchvision for data sets that nobody uses here. An empty module takes its place: torchvision has no
CPU build for every torch.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import signal
import socket
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from testbed.learning.models import building


def _without_torchvision() -> None:
    for name in ("torchvision", "torchvision.datasets", "torchvision.transforms"):
        sys.modules[name] = types.ModuleType(name)
    for name in ("datasets", "transforms"):
        setattr(sys.modules["torchvision"], name, sys.modules[f"torchvision.{name}"])


_without_torchvision()
from fedlab.contrib.algorithm.basic_server import AsyncServerHandler, SyncServerHandler  # noqa: E402
from fedlab.core.client.manager import ActiveClientManager, PassiveClientManager  # noqa: E402
from fedlab.core.client.trainer import ClientTrainer  # noqa: E402
from fedlab.core.network import DistNetwork  # noqa: E402
from fedlab.core.server.manager import AsynchronousServerManager, SynchronousServerManager  # noqa: E402

_MIXING = 0.6
_WITHOUT_END = 10**9
_END_SECONDS = 20.0


class OneStep(ClientTrainer):  # type: ignore[misc]
    """One SGD step on a batch of the client's own samples; sends its model, and in async mode the round it is from."""

    def __init__(self, model: torch.nn.Module, samples: Any, labels: Any, given: argparse.Namespace, seed: int) -> None:
        super().__init__(model, cuda=False)
        self._samples, self._labels, self._given = torch.from_numpy(samples), torch.from_numpy(labels), given
        self._random, self._order = np.random.default_rng(seed), np.empty(0, np.int64)
        self._package: list[torch.Tensor] = []

    @property
    def uplink_package(self) -> list[torch.Tensor]:
        return self._package

    def local_process(self, payload: list[torch.Tensor], id: int) -> None:  # noqa: A002  the name in FedLab
        self.set_model(payload[0])
        if len(self._order) < self._given.batch:
            self._order = self._random.permutation(len(self._labels))
        batch, self._order = self._order[: self._given.batch], self._order[self._given.batch :]
        self.model.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.model(self._samples[batch]), self._labels[batch])
        loss.backward()
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.add_(parameter.grad, alpha=-self._given.lr)
        self._package = [self.model_parameters, *payload[1:]]


class Count:
    """Counts updates after the warm-up; says when the measured seconds are over, and writes the result then."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given, self._warm_up, self._updates, self._began = given, given.warm_up * given.clients, 0, 0.0
        self.over = False

    def update(self) -> None:
        if self.over:
            return
        if self._warm_up > 0:
            self._warm_up -= 1
            self._began = time.monotonic()
            return
        self._updates += 1
        seconds = time.monotonic() - self._began
        if seconds >= self._given.seconds:
            self.over = True
            self._given.result.write_text(json.dumps({"updates": self._updates, "seconds": seconds}), encoding="utf-8")


def _counting(handler: type[Any], count: Count) -> type[Any]:
    """The handler with a count, and with an end by time instead of by rounds."""

    class Counting(handler):  # type: ignore[misc]
        def load(self, payload: list[torch.Tensor]) -> Any:
            ended_the_round = super().load(payload)
            count.update()
            return ended_the_round

        @property
        def if_stop(self) -> bool:
            return count.over

    return Counting


def serve(network: DistNetwork, model: torch.nn.Module, given: argparse.Namespace) -> None:
    count = Count(given)
    if given.mode == "sync":
        handler = _counting(SyncServerHandler, count)(model, global_round=_WITHOUT_END, sample_ratio=1.0)
        SynchronousServerManager(network, handler).run()
    else:
        handler = _counting(AsyncServerHandler, count)(model, global_round=_WITHOUT_END)
        handler.setup_optim(alpha=_MIXING)
        AsynchronousServerManager(network, handler).run()


def train(network: DistNetwork, model: torch.nn.Module, given: argparse.Namespace, data: Any) -> None:
    shard = data["shards"][network.rank - 1]
    trainer = OneStep(model, data["inputs"][shard], data["targets"][shard], given, network.rank)
    manager = PassiveClientManager if given.mode == "sync" else ActiveClientManager
    manager(network, trainer).run()


def main() -> None:
    given = _arguments()
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    model = building.build(given.network, seed=1)
    with np.load(given.data) as stored:
        data = dict(stored)
    address = ("127.0.0.1", str(_free_port()))

    def process(rank: int, work: Callable[..., None], *more: Any) -> multiprocessing.Process:
        network = DistNetwork(address, given.clients + 1, rank, ethernet="lo")
        return multiprocessing.get_context("fork").Process(target=work, args=(network, model, given, *more))  # type: ignore[return-value]

    processes = [process(0, serve)]
    processes += [process(rank, train, data) for rank in range(1, given.clients + 1)]
    for each in processes:
        each.start()
    _wait(processes, given)


def _wait(processes: list[multiprocessing.Process], given: argparse.Namespace) -> None:
    """Wait until the server has written its result. What has not ended some seconds after that is killed."""
    while not given.result.exists():
        if processes[0].exitcode is not None:
            break
        time.sleep(0.1)
    until = time.monotonic() + _END_SECONDS
    for each in processes:
        each.join(max(0.0, until - time.monotonic()))
        if each.exitcode is None and each.pid is not None:
            os.kill(each.pid, signal.SIGKILL)
            each.join()
    if not given.result.exists():
        raise SystemExit(f"the FedLab server ended with exit code {processes[0].exitcode} before the time was over")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="FedLab on the work of the race; writes updates and seconds as JSON.")
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--mode", choices=("sync", "async"), required=True)
    parser.add_argument("--network", required=True, help="a network of our catalogue")
    parser.add_argument("--data", type=Path, required=True, help="npz: inputs, targets, shards")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--warm-up", type=int, default=3, help="updates of each client that are not measured")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--result", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
