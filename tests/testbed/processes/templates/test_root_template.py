"""The end of the root template. Tests of whole runs are in tests/live/test_templates.py and tests/live/test_ends.py."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.host import private_folder
from testbed.host.private_folder import PrivateFolder
from testbed.processes.preparation import Preparation
from testbed.processes.templates import early, root_template
from testbed.processes.templates.root_template import RootTemplate
from testbed.processes.templates.template import TemplateRequest
from testbed.wire.training_job import Job

REQUEST = TemplateRequest(
    source="mine",
    task="digits",
    parameters={},
    devices=2,
    data_seed=0,
    model_seed=0,
    job=Job(),
    crowd={},
    flops=False,
    strategy="",
)
DEAD_OWNER = 0
"""No process has this parent's pid: the root template finds that its owner has died."""


@pytest.fixture(autouse=True)
def restored_signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(root_template, "_ATTEMPTS", 50)
    handler = signal.getsignal(early.END)
    yield
    signal.set_wakeup_fd(-1)
    signal.signal(early.END, handler)


@contextmanager
def root_with_a_request() -> Iterator[tuple[RootTemplate, Path]]:
    """A root template whose launcher has sent a request, with the lock of its private folder, and has died."""
    lease, theirs = socket.socketpair()
    ours, connection = socket.socketpair()
    path = Path(tempfile.mkdtemp(prefix="edgebed-test-"))
    lock = private_folder._locked(path)
    assert lock is not None
    with lease, ours, connection:
        socket.send_fds(lease, [b"+"], [connection.fileno()])
        connection.close()
        Preparation(ours).request(REQUEST, PrivateFolder(path, lock))
        os.close(lock)
        ours.close()
        yield RootTemplate(theirs, DEAD_OWNER), path


def test_a_signal_in_the_middle_of_a_request_ends_the_root_template_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fork = RootTemplate._fork_warm

    def forked_as_the_owner_dies(self: RootTemplate, key: bytes, descriptors: Sequence[int]) -> object:
        warm = fork(self, key, descriptors)
        os.kill(os.getpid(), early.END)
        return warm

    monkeypatch.setattr(RootTemplate, "_fork_warm", forked_as_the_owner_dies)
    with root_with_a_request() as (root, path):
        root.serve()
        root.end()
    assert not path.exists()


def test_a_request_that_was_never_read_does_not_keep_the_private_folder() -> None:
    with root_with_a_request() as (root, path):
        root.end()
    assert not path.exists()
