"""However a run ends, it keeps its results and leaves nothing behind, which the fixture of all live tests checks."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from pathlib import Path

import psutil
import pytest

from testbed.history import trace
from tests.live.runs import Outcome, complete, started, write_profile

pytestmark = pytest.mark.live

ALL = "all"
"""The process group: a terminal sends Ctrl-C to all of it."""


def end(tmp_path: Path, who: str, how: signal.Signals) -> Outcome:
    """Send a signal to one process of a working fleet, or to all, and wait for the end of the run."""
    with started(write_profile(tmp_path), own_templates=True) as run:
        run.wait_until_traced("scored")
        run.wait_until_at_work()
        run.wait_until_traced("arrived", 3)
        if who == ALL:
            os.killpg(run.process.pid, how)
        else:
            run.members()[who].send_signal(how)
        return run.finish()


def accounts_balance(outcome: Outcome) -> bool:
    summary, count = outcome.summary, outcome.recount()
    return count["applied"] >= 3 and all(summary[name] == number for name, number in count.items())


@pytest.mark.parametrize(
    ("who", "how", "code"),
    [
        (ALL, signal.SIGINT, 130),
        (ALL, signal.SIGTERM, 143),
        (ALL, signal.SIGHUP, 129),
        ("launcher", signal.SIGTERM, 143),
    ],
)
def test_a_signal_ends_the_run_and_keeps_the_results(who: str, how: signal.Signals, code: int, tmp_path: Path) -> None:
    outcome = end(tmp_path, who, how)
    assert (outcome.code, outcome.stderr) == (code, "")
    assert outcome.summary["stopped"] == "interrupted"
    assert accounts_balance(outcome)
    # the last version was still scored and saved
    assert int(outcome.csv("metrics.csv")[-1]["version"]) == outcome.summary["versions"]
    assert (outcome.folder / "checkpoints" / "final.safetensors").is_file()
    assert {"profile.toml", "meta.json", "devices.csv"} <= {path.name for path in outcome.folder.iterdir()}


def end_during_preparation(tmp_path: Path, how: signal.Signals) -> Outcome:
    """Send a signal once a warm template is forked: Ctrl-C to the group, as a terminal does, others to the launcher."""
    with started(write_profile(tmp_path), own_templates=True) as run:
        launcher = psutil.Process(run.process.pid)
        run.wait_for(lambda: any(child.children() for child in launcher.children() if is_template(child)), "a template")
        if how is signal.SIGINT:
            os.killpg(run.process.pid, how)
        else:
            launcher.send_signal(how)
        return run.finish()


def is_template(process: psutil.Process) -> bool:
    try:
        return "root_program" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def test_ctrl_c_during_the_preparation_of_the_template_ends_the_run(tmp_path: Path) -> None:
    outcome = end_during_preparation(tmp_path, signal.SIGINT)
    assert (outcome.code, outcome.stderr) == (130, "")
    assert outcome.summary["dispatched"] == 0


def test_a_template_whose_launcher_died_early_cleans_up_and_ends(tmp_path: Path) -> None:
    outcome = end_during_preparation(tmp_path, signal.SIGKILL)
    assert outcome.code == -signal.SIGKILL
    assert not (outcome.folder / "trace.jsonl").exists()


def test_the_death_of_the_launcher_ends_all_processes(tmp_path: Path) -> None:
    outcome = end(tmp_path, "launcher", signal.SIGKILL)
    assert outcome.code == -signal.SIGKILL
    assert len(outcome.of_kind(trace.Arrived)) >= 3  # the trace can be read


@pytest.mark.parametrize(("who", "how"), [("aggregator", signal.SIGKILL), ("template", signal.SIGKILL)])
def test_the_death_of_aggregator_or_template_fails_the_run_and_the_trace_is_kept(
    who: str, how: signal.Signals, tmp_path: Path
) -> None:
    outcome = end(tmp_path, who, how)
    assert outcome.code == 1
    assert "Traceback" not in outcome.stdout + outcome.stderr
    assert outcome.summary["stopped"] == "the aggregator ended early"
    assert accounts_balance(outcome)


def test_after_the_death_of_a_device_its_job_is_lost_and_the_run_continues(tmp_path: Path) -> None:
    profile = write_profile(tmp_path, presence={"heartbeat": 0.25, "timeout": 2.0})
    with started(profile, own_templates=True) as run:
        run.wait_until_traced("arrived", 3)
        victim = run.members()["rpi4-2"]
        victim.kill()
        run.wait_for(lambda: any(left.device == "rpi4-2" for left in run.of_kind(trace.Left)), "the end of rpi4-2")
        made = max(Counter(arrived.device for arrived in run.of_kind(trace.Arrived)).values())
        run.wait_until_each_delivered(made + 2, {"rpi4-1", "rpi4-3"})
        run.wait_for(lambda: f"rpi4-2 (pid {victim.pid}) was ended by SIGKILL" in run.errors(), "a word about its end")
        outcome = run.interrupt()
    assert outcome.code == 130
    [left] = [event for event in outcome.of_kind(trace.Left) if event.device == "rpi4-2"]
    [lost] = [event for event in outcome.of_kind(trace.Lost) if event.device == "rpi4-2"]
    assert lost.t == left.t
    assert outcome.summary["lost"] == len(outcome.of_kind(trace.Lost))
    assert accounts_balance(outcome)
    after = {event.device for event in outcome.of_kind(trace.Arrived) if event.t > left.t}
    assert after == {"rpi4-1", "rpi4-3"}


def test_the_death_of_all_devices_fails_the_run(tmp_path: Path) -> None:
    profile = write_profile(tmp_path, devices=[{"profile": "rpi4", "link": "wifi", "count": 2}])
    with started(profile, own_templates=True) as run:
        run.wait_until_traced("arrived", 3)
        for name, process in run.members().items():
            if name.startswith("rpi4"):
                process.kill()
        outcome = run.finish()
    assert outcome.code == 1
    assert "all devices have died" in outcome.stderr
    assert accounts_balance(outcome)


BROKEN_STRATEGY = """
from dataclasses import dataclass
from aggregator.pacing import EveryUpdate

@dataclass(kw_only=True)
class Broken(EveryUpdate):
    def weight(self, update, server):
        if server.version == 4:
            raise ValueError("my own bug")
        return 0.1
"""


def test_the_exception_of_a_strategy_is_reported_and_the_trace_is_kept(tmp_path: Path) -> None:
    (tmp_path / "my_strategy.py").write_text(BROKEN_STRATEGY, encoding="utf-8")
    outcome = complete(write_profile(tmp_path, strategy="my_strategy:Broken"))
    assert outcome.code == 1
    [line] = outcome.stderr.splitlines()
    assert "ended with exit code 1: my_strategy.py:9, in weight: ValueError: my own bug (update of rpi4-" in line
    assert ", version 4) (see " in line
    assert "Traceback" in (outcome.folder / "logs" / "aggregator.log").read_text(encoding="utf-8")
    # the update that caused it is the last one in the trace, and the model before it was saved
    assert (outcome.summary["versions"], len(outcome.of_kind(trace.Arrived))) == (4, 5)
    assert (outcome.folder / "checkpoints" / "final.safetensors").is_file()


ENDLESS_STRATEGY = """
from dataclasses import dataclass
from pathlib import Path
from aggregator.pacing import EveryUpdate

@dataclass(kw_only=True)
class Endless(EveryUpdate):
    def weight(self, update, server):
        while server.version == 4:
            pass
        return 0.1

@dataclass(kw_only=True)
class Stubborn(EveryUpdate):
    def weight(self, update, server):
        while server.version == 4:
            Path(__file__).with_name("endless").touch()
            try:
                while True:
                    pass
            except BaseException:
                continue
        return 0.1
"""


def test_a_strategy_that_does_not_return_is_interrupted_and_its_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "my_strategy.py").write_text(ENDLESS_STRATEGY, encoding="utf-8")
    outcome = complete(write_profile(tmp_path, strategy="my_strategy:Endless", aggregator={"patience": 1.0}))
    assert outcome.code == 1
    line = outcome.stderr.splitlines()[-1]
    assert re.search(r"my_strategy\.py:(9|10), in weight: Endless has not returned since [\d.]+ s of the run", line)
    assert "(update of rpi4-" in line
    assert ", version 4); correct the strategy, or raise aggregator.patience (see " in line
    assert (outcome.summary["versions"], len(outcome.of_kind(trace.Arrived))) == (4, 5)
    assert (outcome.folder / "checkpoints" / "final.safetensors").is_file()


def test_ctrl_c_ends_a_run_whose_strategy_neither_returns_nor_can_be_interrupted(tmp_path: Path) -> None:
    (tmp_path / "my_strategy.py").write_text(ENDLESS_STRATEGY, encoding="utf-8")
    with started(write_profile(tmp_path, strategy="my_strategy:Stubborn"), own_templates=True) as run:
        run.wait_for((tmp_path / "endless").exists, "the endless call")
        outcome = run.interrupt()
    assert outcome.code == 1
    line = outcome.stderr.splitlines()[-1]
    assert "my_strategy:Stubborn has not returned for " in line
    assert ", version 4) and could not be interrupted: the aggregator was killed; correct the strategy (see " in line
    assert "my_strategy.py" in (outcome.folder / "logs" / "aggregator.log").read_text(encoding="utf-8")
    assert (outcome.summary["versions"], len(outcome.of_kind(trace.Arrived))) == (4, 5)


def test_a_frozen_device_leaves_and_rejoins_when_it_thaws(tmp_path: Path) -> None:
    profile = write_profile(tmp_path, presence={"heartbeat": 0.25, "timeout": 1.0})
    with started(profile, own_templates=True) as run:
        run.wait_until_traced("arrived", 3)
        victim = run.members()["rpi4-2"]
        victim.suspend()
        run.wait_until_traced("left")
        victim.resume()
        run.wait_until_traced("joined", 4)
        run.process.send_signal(signal.SIGINT)
        outcome = run.finish()
    assert outcome.code == 130
    assert [event.device for event in outcome.of_kind(trace.Left)] == ["rpi4-2"]
    assert outcome.summary["lost"] == 1
    assert accounts_balance(outcome)
