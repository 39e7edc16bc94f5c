"""The request to the template, and how its answer is handled."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.common.channel import Channel, close_all
from testbed.common.errors import UserError
from testbed.host.core_plan import CoreRoles
from testbed.host.survey import Survey
from testbed.loading import profile_files, profile_loader
from testbed.processes import preparation
from testbed.processes.preparation import Preparation
from testbed.processes.templates.template import (
    OpenTemplates,
    Prepare,
    TemplateAnswer,
    TemplateRequest,
    TemplatesOpened,
)
from tests.testbed.examples import write_profile

ROOT = Path(__file__).parents[3]
ROLES = CoreRoles(aggregator=0, evaluator=0, device_cores=(1, 2), shareable=(1, 2, 0))


def requested(folder: Path, devices: str) -> TemplateRequest:
    task = 'task = { name = "digits", split.name = "dirichlet", split.alpha = 0.25 }'
    text = f'name = "mine"\nseed = 9\nmodel_seed = 4\nstrategy = "fedavg"\n{task}\n{devices}'
    return preparation.template_request(profile_loader.load(write_profile(folder, text)), ROLES)


def test_a_request_says_what_to_load_for_which_devices(tmp_path: Path) -> None:
    made = requested(tmp_path, 'devices = [{ profile = "rpi4", count = 3 }]\ntraining.batch = 8')
    assert (made.source, made.task, made.parameters) == (
        "mine",
        "digits",
        {
            "buffers": "average",
            "model": "small-cnn",
            "split": {
                "name": "dirichlet",
                "alpha": 0.25,
                "balanced": False,
                "capped": False,
                "quantity": False,
                "least": 1,
                "short": "fill",
            },
        },
    )
    assert (made.devices, made.data_seed, made.model_seed) == (3, 9, 4)
    assert made.job.batch == 8


def test_steps_are_timed_with_as_many_processes_on_a_core_as_the_run_has_but_at_most_four(tmp_path: Path) -> None:
    made = requested(tmp_path, 'devices = [{ profile = "rpi4", count = 8 }]')
    assert made.crowd == {1: 3, 2: 3, 0: 2}
    apart = requested(tmp_path, 'cores = "apart"\ndevices = [{ profile = "rpi4", count = 9 }]')
    assert apart.crowd == {1: 4, 2: 4}


def test_slow_imports_of_a_strategy_happen_before_any_process_is_forked(tmp_path: Path) -> None:
    assert requested(tmp_path, 'devices = [{ profile = "rpi4", count = 3 }]').strategy == ""  # it has none
    experiment = profile_loader.load(profile_files.SHIPPED / "experiments" / "eafl.toml")
    assert preparation.template_request(experiment, ROLES).strategy == "eafl"
    code = (
        "import sys; from aggregator.strategies import STRATEGIES; STRATEGIES['eafl'].preload();"
        " print('sklearn.cluster' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def test_no_step_is_timed_if_no_device_is_throttled(tmp_path: Path) -> None:
    assert requested(tmp_path, 'devices = [{ profile = "host" }]').crowd == {}


def test_steps_are_timed_if_one_device_is_throttled(tmp_path: Path) -> None:
    made = requested(tmp_path, 'devices = [{ profile = "host" }, { profile = "rpi4" }]')
    assert made.crowd == {1: 1, 2: 1}


@pytest.mark.parametrize(("key", "flops"), [("seconds_per_sample = 1", False), ("flop_per_second = 1e9", True)])
def test_flops_are_counted_if_a_speed_needs_them(tmp_path: Path, key: str, flops: bool) -> None:
    assert requested(tmp_path, f'devices = [{{ profile = "rpi4", {key} }}]').flops is flops


# ---- answers


def answered(reply: TemplateAnswer | None, *, interrupted: bool = False) -> Survey | None:
    """What the launcher makes of an answer; None: the template dies instead."""
    ours, theirs = socket.socketpair()
    with theirs, ours:
        if reply is not None:
            Channel(theirs, Prepare).send(reply)
        elif not interrupted:
            theirs.close()
        return Preparation(ours).survey(lambda: interrupted)


def test_a_survey_is_returned() -> None:
    survey = Survey(parameters=3)
    assert answered(TemplateAnswer(survey=survey)) == survey


def test_an_interrupted_template_has_no_answer() -> None:
    assert answered(None, interrupted=True) is None


def test_a_problem_that_a_user_can_fix_is_a_user_error() -> None:
    with pytest.raises(UserError, match="use fewer devices"):
        answered(TemplateAnswer(problem="3 samples cannot be split; use fewer devices"))


def test_any_other_problem_keeps_its_details() -> None:
    with pytest.raises(preparation.TemplateFailed, match="the task failed") as caught:
        answered(TemplateAnswer(problem="the task failed", details="Traceback …"))
    assert caught.value.details == "Traceback …"


def test_a_template_that_died_is_reported_with_a_remedy() -> None:
    with pytest.raises(preparation.TemplateFailed, match="the template died while it loaded the task; free memory"):
        answered(None)


# ---- run templates


@pytest.mark.parametrize(("cores", "devices", "count"), [(2, 1000, 2), (32, 40, 3), (512, 100_000, 64)])
def test_there_is_a_run_template_for_each_core_up_to_a_limit(
    cores: int, devices: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as one message could not carry would never arrive."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    ours, theirs = socket.socketpair()
    template = Channel(theirs, OpenTemplates)
    with theirs, ours:
        template.send(TemplatesOpened(pids=tuple(range(1, count + 1))))
        opened = Preparation(ours).run_templates(devices)
        _, ends = template.receive()
    close_all(ends)
    for each in opened:
        each.channel.close()
    assert (len(opened), len(ends)) == (count, count)


# ---- standard output


REQUEST_WITH_CLOSED_OUTPUT = """
import os, socket
from pathlib import Path
from testbed.common.channel import Channel
from testbed.host.private_folder import PrivateFolder
from testbed.processes.preparation import Preparation
from testbed.processes.templates.template import Prepare, TemplateRequest
from testbed.wire.training_job import Job
request = TemplateRequest(
    source="", task="", parameters={}, devices=1, data_seed=0, model_seed=0, job=Job(), crowd={}, flops=False,
    strategy="",
)
ours, theirs = socket.socketpair()
assert 1 in (ours.fileno(), theirs.fileno())  # the number of the closed output
Preparation(ours).request(request, PrivateFolder(Path("/private"), None))
_, descriptors = Channel(theirs, Prepare).receive()
os.write(2, " ".join(os.readlink(f"/proc/self/fd/{each}") for each in descriptors).encode())
"""


def test_a_socket_that_has_the_number_of_a_closed_output_is_not_passed_on_as_output(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    shell = f"exec {sys.executable} -c '{REQUEST_WITH_CLOSED_OUTPUT}' >&- 2> {errors}"
    subprocess.run(["bash", "-c", shell], cwd=ROOT, check=False, timeout=60)
    assert errors.read_text(encoding="utf-8") == f"/dev/null {errors}"
