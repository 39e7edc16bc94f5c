"""Templates that are kept from run to run, and their end with their owner."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from testbed.host.private_folder import private_folder
from testbed.host.survey import Survey
from testbed.loading.profile_files import SHIPPED
from testbed.processes.preparation import prepared_template
from testbed.processes.templates import early, forkserver
from testbed.processes.templates.template import TemplateRequest
from testbed.runs.results.run_meta import Meta
from testbed.wire.training_job import Job
from tests.live.runs import PATIENCE, PROGRAM, ROOT

pytestmark = pytest.mark.live

OWN_TASK = """
from dataclasses import dataclass
from testbed.learning.tasks.digits import Digits

@dataclass(kw_only=True)
class Own(Digits):
    pass
"""


def request(task: str = "digits", seed: int = 1) -> TemplateRequest:
    return TemplateRequest(
        source="test",
        task=task,
        parameters={},
        devices=4,
        data_seed=seed,
        model_seed=seed,
        job=Job(),
        crowd={},
        flops=False,
        strategy="",
    )


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(early, "_is_kept", True)
    yield
    early.end()


def prepare(asked: TemplateRequest) -> tuple[Survey, int]:
    """Prepare a run, and end it. Returns the survey, and the pid of the warm template."""
    with private_folder() as private, prepared_template(private, asked) as prepared:
        survey = prepared.survey(lambda: False)
        assert survey is not None
        [run_template] = prepared.run_templates(1)
        run_template.channel.close()
        return survey, psutil.Process(run_template.pid).ppid()


def test_runs_with_the_same_task_share_a_warm_template() -> None:
    (first, template), (second, same) = prepare(request()), prepare(request())
    assert (same, second.parameters) == (template, first.parameters)


def test_a_run_has_the_limit_on_open_files_of_its_launcher() -> None:
    early.begin()  # it starts with the limit that this process has now
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        with private_folder() as private, prepared_template(private, request()) as prepared:
            prepared.survey(lambda: False)
            [run_template] = prepared.run_templates(1)
            seen = resource.prlimit(run_template.pid, resource.RLIMIT_NOFILE)
            run_template.channel.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert seen == (soft - 1, hard)


def test_a_run_with_another_seed_has_another_template_and_two_are_kept() -> None:
    warm = [psutil.Process(prepare(request(seed=seed))[1]) for seed in (1, 2, 3)]
    psutil.wait_procs(warm[:1], timeout=PATIENCE)
    assert [process.is_running() for process in warm] == [False, True, True]
    assert prepare(request(seed=2))[1] == warm[1].pid


def test_a_module_that_was_edited_is_imported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "own_task_of_a_user.py"
    module.write_text(OWN_TASK, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = request("own_task_of_a_user:Own")
    first = prepare(asked)[1]
    assert prepare(asked)[1] == first
    module.write_text(OWN_TASK + "# edited\n", encoding="utf-8")
    assert prepare(asked)[1] != first


def surroundings(report: int) -> None:
    os.write(report, f"{Path.cwd()} {os.environ.get('EDGEBED_TEST_COLOUR')}".encode())


def test_a_run_has_the_folder_and_the_variables_of_its_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen() -> str:
        with private_folder() as private, prepared_template(private, request()) as prepared:
            prepared.survey(lambda: False)
            [run_template] = prepared.run_templates(1)
            reading, writing = os.pipe()
            with os.fdopen(reading) as pipe:
                run_template.request([forkserver.order("x", surroundings, descriptors=1)], [writing])
                os.close(writing)
                text = pipe.read()
            run_template.channel.close()
            return text

    assert seen() == f"{Path.cwd()} None"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEBED_TEST_COLOUR", "blue")
    assert seen() == f"{tmp_path} blue"


def test_an_error_of_a_process_without_a_log_is_in_the_log_of_the_template(tmp_path: Path) -> None:
    log = tmp_path / "template.log"
    with private_folder() as private, prepared_template(private, request()) as prepared:
        prepared.survey(lambda: False)
        [run_template] = prepared.run_templates(1, log)
        run_template.request([forkserver.ForkOrder(name="x", call=b"no pickle")])
        reports = [run_template.channel.receive()[0] for _ in range(2)]
        run_template.channel.close()
    assert isinstance(reports[1], forkserver.Exited)
    assert reports[1].code == 1
    assert "UnpicklingError" in log.read_text(encoding="utf-8")


def test_a_warm_template_that_was_killed_is_replaced() -> None:
    survey, pid = prepare(request())
    warm = psutil.Process(pid)
    warm.kill()
    psutil.wait_procs([warm], timeout=PATIENCE)
    again, other = prepare(request())
    assert (again.parameters, other != pid) == (survey.parameters, True)


OWNER = """
import sys, time
from testbed.host.private_folder import private_folder
from testbed.processes.templates import early
from testbed.processes.preparation import prepared_template
from tests.live.test_templates import request

early.keep()
with private_folder() as private, prepared_template(private, request()) as prepared:
    prepared.survey(lambda: False)
    templates = prepared.run_templates(1)
    print(templates[0].pid, private.path, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_templates_and_private_folder_end_with_their_owner(how: signal.Signals) -> None:
    """SIGTERM ends a Python process without its exit handlers, too."""
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        family = psutil.Process(owner.pid).children(recursive=True)
        assert int(pid) in {process.pid for process in family}
        owner.send_signal(how)
        _, alive = psutil.wait_procs(family, timeout=PATIENCE)
    assert alive == []
    assert not Path(folder).exists()


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_with_closed_outputs_does_its_work(tmp_path: Path, closed: str) -> None:
    words = (
        f"{sys.executable} {PROGRAM} run quickstart --seconds 1 --no-admission --no-report --out {tmp_path} {closed}"
    )
    found = subprocess.run(words, shell=True, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    assert list(tmp_path.glob("*/summary.json"))


def test_a_run_may_begin_in_a_folder_whose_name_is_not_utf_8(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    shutil.copy(SHIPPED / "experiments" / "quickstart.toml", folder / "mine.toml")
    words = [sys.executable, str(PROGRAM), "run", "mine.toml", "--seconds", "1", "--no-admission", "--no-report"]
    found = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    [meta] = folder.glob("runs/*/meta.json")
    assert msgspec.json.decode(meta.read_bytes(), type=Meta).profile is None


def test_an_invalid_experiment_ends_the_early_interpreter() -> None:
    """It is started before the experiment is read; the fixture of all live tests finds what is left over."""
    words = [sys.executable, str(PROGRAM), "run", "quickstart", "--set", "strategy.nonsense=1"]
    found = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert found.returncode == 2
    assert len(found.stderr.splitlines()) == 1
