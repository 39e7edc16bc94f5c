"""Who sends messages in this process: newer versions of flwr ask before they make one."""

from __future__ import annotations

try:
    from flwr.supercore.task_identity import TaskIdentity
except ImportError:  # earlier versions do not ask
    TaskIdentity = None

RUN = 1
SERVER_NODE = 1


def act_as(node: int) -> None:
    """Let the messages that this process makes come from a node of the run."""
    if TaskIdentity is not None:
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, RUN, node
