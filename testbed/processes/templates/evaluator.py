"""The evaluator process: scores snapshots of the model, outside of the aggregator's critical path."""

from __future__ import annotations

import math
import os

from testbed.host.cores import settle
from testbed.learning.training.task import Task
from testbed.processes.templates.configs import EvaluatorConfig
from testbed.wire.codec import decode_or_log, encode, largest_frame
from testbed.wire.messages import EVALUATOR, STOPPED, Heartbeat, Hello, Score, Snapshot, Stop
from testbed.wire.sockets import closing_peer

_CONNECT_SECONDS = 60.0
_WAIT_SECONDS = 1.0


def main(config: EvaluatorConfig, task: Task) -> None:
    """Score each snapshot until the run is over. Metrics that are not finite are left out of the score."""
    cores = settle(config.cores, config.priority)
    limit = largest_frame(task.size)
    with closing_peer(config.endpoint, EVALUATOR, max_bytes=limit, credential=config.credential) as peer:
        hello = Hello(device=EVALUATOR, pid=os.getpid(), cores=cores, samples=0)
        peer.send(encode(hello), timeout=_CONNECT_SECONDS)
        while True:
            message = decode_or_log(peer.receive(_WAIT_SECONDS), task.size)
            if isinstance(message, Stop):
                peer.send(encode(Heartbeat(device=EVALUATOR, state=STOPPED)), timeout=_WAIT_SECONDS)
                return
            if isinstance(message, Snapshot):
                metrics = {k: v for k, v in task.evaluate(message.model).items() if math.isfinite(v)}
                score = Score(version=message.version, made=message.made, metrics=metrics)
                peer.send(encode(score), timeout=_CONNECT_SECONDS)
