"""The processes of a run as the launcher sees them. The test is the template, and forks nothing."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.common.channel import Channel
from testbed.common.errors import RunFailed
from testbed.processes.pool import AGGREGATOR, Processes, RunTemplate
from testbed.processes.templates.forkserver import Exited, ForkBatch, Forked, ForkReport

NOBODY: Any = None
"""A configuration that no process reads."""


class Scene:
    """Two run templates, whose answers the test gives in advance."""

    def __init__(self, folder: Path) -> None:
        self.processes = Processes(folder)
        pairs = [socket.socketpair(), socket.socketpair()]
        self.templates: list[Channel[ForkBatch]] = [Channel(theirs, ForkBatch) for _, theirs in pairs]
        self._ours = [ours for ours, _ in pairs]
        self.processes.fork_from(
            [RunTemplate(Channel(ours, ForkReport), pid) for ours, pid in zip(self._ours, (71, 72), strict=True)]
        )

    def say(self, report: ForkReport, template: int = 0) -> None:
        self.templates[template].send(report)

    def close(self) -> None:
        for end in (*self.templates, *self._ours):
            end.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


# pids of processes that cannot exist: above the largest that the kernel gives out
FIRST = 1 << 22


def test_a_process_has_an_exit_code_when_its_template_reports_it(scene: Scene) -> None:
    scene.say(Forked(name=AGGREGATOR, pid=FIRST))
    scene.processes.fork(AGGREGATOR, NOBODY)
    assert (scene.processes[AGGREGATOR].pid, scene.processes[AGGREGATOR].exitcode) == (FIRST, None)
    scene.say(Exited(pid=FIRST, code=-9))
    scene.processes.join(AGGREGATOR)
    assert scene.processes[AGGREGATOR].exitcode == -9
    assert scene.processes.why(AGGREGATOR) == f"aggregator (pid {FIRST}) was ended by SIGKILL"


def test_a_fork_that_the_host_refuses_is_reported_with_a_remedy(scene: Scene) -> None:
    scene.say(Forked(name="a-1", problem=repr(BlockingIOError(11, "Resource temporarily unavailable"))))
    with pytest.raises(RunFailed) as caught:
        scene.processes.fork("a-1", NOBODY)
    assert str(caught.value) == (
        "a-1 could not be forked: BlockingIOError(11, 'Resource temporarily unavailable');"
        " free memory, or raise the limit on processes (ulimit -u)"
    )


def test_a_fleet_is_forked_by_all_templates_in_batches(scene: Scene) -> None:
    names = [f"a-{number}" for number in range(1, 25)]
    for number, name in enumerate(names):  # batches of eight: the first, the second, and the first again
        scene.say(Forked(name=name, pid=FIRST + number), template=1 if 8 <= number < 16 else 0)
    shown: list[tuple[int, int]] = []
    scene.processes.fork_all(dict.fromkeys(names, NOBODY), lambda: False, lambda *done: shown.append(done))
    assert sorted(scene.processes) == sorted(names)
    assert shown[-1] == (24, 24)
    sizes = [len(scene.templates[each].receive()[0].orders) for each in (0, 0, 1)]
    assert sizes == [8, 8, 8]


def test_a_signal_stops_the_forking_of_a_fleet(scene: Scene) -> None:
    scene.processes.fork_all({"a-1": NOBODY}, lambda: True, lambda *_: None)
    assert list(scene.processes) == []


def test_the_death_of_a_template_is_the_death_of_its_processes_and_one_clear_error(scene: Scene) -> None:
    scene.say(Forked(name=AGGREGATOR, pid=FIRST))
    scene.processes.fork(AGGREGATOR, NOBODY)
    scene.processes.check_templates()
    scene.templates[0].close()
    scene.processes.join(AGGREGATOR)
    assert scene.processes[AGGREGATOR].exitcode == -signal.SIGKILL
    text = "the template (pid 71) died, and with it the processes that were forked from it; free memory"
    assert scene.processes.why(AGGREGATOR) == text
    with pytest.raises(RunFailed) as caught:
        scene.processes.check_templates()
    assert str(caught.value) == text


def test_a_template_that_dies_while_it_forks_fails_the_run(scene: Scene) -> None:
    scene.templates[0].close()
    with pytest.raises(RunFailed, match=r"could not be forked|the template \(pid 71\) died"):
        scene.processes.fork(AGGREGATOR, NOBODY)


def test_a_process_that_failed_before_it_opened_its_log_is_explained_by_that_of_the_template(
    scene: Scene, tmp_path: Path
) -> None:
    scene.say(Forked(name=AGGREGATOR, pid=FIRST))
    scene.processes.fork(AGGREGATOR, NOBODY)
    scene.processes.template_log.parent.mkdir()
    scene.processes.template_log.write_text("Traceback …\nImportError: no module 'own'\n", encoding="utf-8")
    scene.say(Exited(pid=FIRST, code=1))
    log = tmp_path / "logs" / "template.log"
    text = f"aggregator (pid {FIRST}) ended with exit code 1: ImportError: no module 'own' (see {log})"
    assert scene.processes.why(AGGREGATOR) == text


def test_a_killed_process_is_not_explained_by_the_log_of_the_template(scene: Scene) -> None:
    scene.say(Forked(name="a-1", pid=FIRST))
    scene.processes.fork("a-1", NOBODY)
    scene.processes.template_log.parent.mkdir()
    scene.processes.template_log.write_text("UserWarning: of something else\n", encoding="utf-8")
    scene.say(Exited(pid=FIRST, code=-9))
    assert scene.processes.why("a-1") == f"a-1 (pid {FIRST}) was ended by SIGKILL"


def test_a_template_that_failed_is_explained_by_its_log_but_not_by_what_an_earlier_run_wrote(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "template.log"
    log.write_text("of the run that is resumed\n", encoding="utf-8")
    scene = Scene(tmp_path)
    scene.templates[0].close()
    scene.processes.wait_for_exits(30)
    with pytest.raises(RunFailed, match=r"forked from it; free memory$"):
        scene.processes.check_templates()
    with log.open("a", encoding="utf-8") as file:
        file.write("MemoryError\n")
    with pytest.raises(RunFailed, match=r"forked from it: MemoryError \(see "):
        scene.processes.check_templates()
    scene.close()
