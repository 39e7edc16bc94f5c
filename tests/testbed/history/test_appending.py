"""A file without disk space: a real limit (RLIMIT_FSIZE), in a separate process."""

from __future__ import annotations

import os
import resource
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from testbed.common.files import statefile
from testbed.history import trace
from testbed.history.appending import Appender
from testbed.history.trace import TraceWriter


def limit(size: int = resource.RLIM_INFINITY) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def in_child(work: Callable[[], None]) -> None:
    """Run ``work`` in a child: the limit applies to a whole process, and pytest writes files, too."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001  a child must never go on with the tests
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "see what the child wrote"


LINES = [b'{"number":%d}\n' % number for number in range(100)]


@pytest.mark.parametrize("room", [0, 1, 13, 14, 100])
def test_lines_without_disk_space_are_written_later_and_no_line_is_torn(tmp_path: Path, room: int) -> None:
    path = tmp_path / "lines"

    def work() -> None:
        file = Appender(path)
        limit(room)
        for line in LINES[:50]:
            file.append(line)
        assert path.stat().st_size == room
        assert (file.kept, file.problem) == (len(b"".join(LINES[:50])) - room, "File too large")
        limit(room + 20)  # a little
        file.push()
        assert path.stat().st_size == room + 20
        limit()
        file.append(b"".join(LINES[50:]))
        assert (file.kept, file.problem) == (0, None)
        assert file.close() == 0

    in_child(work)
    assert path.read_bytes() == b"".join(LINES)


@pytest.mark.parametrize("room", [0, 1, 13, 14, 100])
def test_a_file_that_never_gets_disk_space_ends_with_a_whole_line(tmp_path: Path, room: int) -> None:
    path = tmp_path / "lines"

    def work() -> None:
        file = Appender(path)
        limit(room)
        for line in LINES:
            file.append(line)
        limit(room + 3)
        lost = file.close()
        whole = path.read_bytes().count(b"\n")
        assert lost == len(LINES) - whole

    in_child(work)
    written = path.read_bytes()
    assert len(written) <= room + 3
    assert b"".join(LINES).startswith(written)
    assert written.endswith(b"\n") or not written


def event(number: int) -> trace.Event:
    return trace.Resent(t=float(number), device="a", ticket=number)


def test_a_trace_is_full_when_too_much_is_kept_in_memory_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"

    def work() -> None:
        writer = TraceWriter(path, most_kept=1000)
        writer.write(event(0))
        writer.flush()
        assert writer.problem is None
        limit(path.stat().st_size + 10)
        for number in range(1, 100):
            writer.write(event(number))
            if number in (5, 50):
                writer.flush()
                assert (writer.problem, writer.full) == ("File too large", number == 50)
        limit()
        writer.flush()
        assert (writer.problem, writer.full) == (None, False)
        writer.close()
        assert writer.lost == 0

    in_child(work)
    assert list(trace.read(path)) == [event(number) for number in range(100)]


def test_a_trace_counts_the_events_that_could_not_be_written(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"

    def work() -> None:
        writer = TraceWriter(path)
        limit(200)
        for number in range(100):
            writer.write(event(number))
        writer.close()
        assert writer.lost == 100 - path.read_bytes().count(b"\n")

    in_child(work)
    torn: list[int] = []
    assert list(trace.read(path, torn.append)) == [event(number) for number in range(4)]
    assert torn == []


def test_a_state_that_cannot_be_written_is_reported_and_the_previous_one_is_kept(tmp_path: Path) -> None:
    path, state = tmp_path / "checkpoints" / "latest", statefile.draft({"model": np.ones(1000, np.float32)}, ())
    state.write(path, {"version": "1"})  # the folder is made with it

    def work() -> None:
        limit(100)
        with pytest.raises(statefile.StateError, match="File too large"):
            state.write(path, {"version": "2"})

    in_child(work)
    assert statefile.notes_of(path)["version"] == "1"
