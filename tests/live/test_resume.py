"""A run is interrupted, by Ctrl-C or by kill -9, and continues from its checkpoint."""

from __future__ import annotations

import shutil
import signal
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from aggregator.process.checkpoint import CHECKPOINT
from testbed.history import trace
from tests.live.leftovers import nothing_left_over
from tests.live.runs import Outcome, Run, check_verified, command, complete, started, write_profile

pytestmark = pytest.mark.live

FLEET: list[dict[str, Any]] = [
    {"profile": "rpi4", "link": "wifi", "count": 2, "drop": 0.2, "suspend": 0.3, "suspend_max": 0.2},
    {"profile": "phone-low", "name": "phone", "link": "5g", "count": 2, "drop": 0.2},
]
STRATEGIES: dict[str, dict[str, Any]] = {
    "fedasync": {"strategy": "fedasync", "devices": FLEET},
    # devices that continue with their old model after a lost download: a resumed run must send it to them
    "psurdg": {
        "strategy": {"name": "psurdg", "interval": 0.4},
        "devices": [{"profile": "rpi4", "link": "wifi", "count": 4, "phi": 0.6, "drop": 0.2}],
        "training": {"steps": 1, "batch": 32, "lr": 0.1},
    },
}


@pytest.fixture(autouse=True)
def no_leftovers() -> Iterator[None]:
    with nothing_left_over():
        yield


def resume(folder: Path, *options: str) -> Outcome:
    # load of other programs must not make a test fail; the demand is the same as before
    result = command("resume", str(folder), "--no-report", "--no-admission", *options)
    return Outcome(code=result.returncode, stdout=result.stdout, stderr=result.stderr, folder=folder)


def wait_until_saved(run: Run) -> None:
    """Wait until there is a checkpoint, and two more versions."""
    run.wait_for(lambda: list(run._out.glob(f"*/{CHECKPOINT}")), "a checkpoint")
    made = run.traced().count('{"kind":"aggregated",')
    run.wait_until_traced("aggregated", made + 2)


def killed(profile: Path, *options: str) -> Path:
    """The folder of a run whose processes were all killed at once."""
    with started(profile, *options) as run:
        wait_until_saved(run)
        folder = run.folder
        run.process.send_signal(signal.SIGKILL)
        run.process.wait()
    return folder


def check_accounts(outcome: Outcome) -> None:
    """No version is missing or made twice, no ticket ends twice, and the summary agrees with the trace.

    The run can be recomputed, over its interruption.
    """
    check_verified(outcome)
    versions = [event.version for event in outcome.of_kind(trace.Aggregated)]
    assert versions == list(range(1, len(versions) + 1))
    recount = outcome.recount()
    assert {name: outcome.summary[name] for name in recount} == recount
    assert recount["dispatched"] == sum(count for name, count in recount.items() if name != "dispatched")


def model(outcome: Outcome) -> str:
    [stopped] = outcome.of_kind(trace.Stopped)
    return stopped.model


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strict_replay_that_was_killed_ends_with_the_recorded_model(strategy: str, tmp_path: Path) -> None:
    (tmp_path / "recorded").mkdir()
    recorded = complete(write_profile(tmp_path / "recorded", stop={"seconds": 5.0}, **STRATEGIES[strategy]))
    assert recorded.code == 0, recorded.stderr
    strict = ("--replay", str(recorded.folder), "--replay-mode", "strict", "--set", "checkpoint.versions=2")
    folder = killed(write_profile(tmp_path, stop={"seconds": 5.0}, **STRATEGIES[strategy]), *strict)
    outcome = resume(folder)
    assert outcome.code == 0, outcome.stderr  # 1 if it differed from the recorded run
    assert model(outcome) == model(recorded)
    [resumed] = outcome.of_kind(trace.Resumed)
    assert 0 < resumed.version < outcome.summary["versions"]
    aside = [file.read_bytes().count(b"\n") for file in folder.glob("undone-*.jsonl")]
    assert resumed.undone == sum(aside)  # 0 if it was killed just after a checkpoint
    check_accounts(outcome)


def test_an_interrupted_run_continues_where_it_was(tmp_path: Path) -> None:
    with started(write_profile(tmp_path, strategy="fedbuff", devices=FLEET)) as run:
        run.wait_until_traced("aggregated", 3)
        refused = command("resume", str(run.folder))
        assert refused.returncode == 2
        assert "this run is under way" in refused.stderr
        run.process.send_signal(signal.SIGINT)
        interrupted = run.finish()
    assert interrupted.code == 128 + signal.SIGINT
    assert f"to continue: run_testbed.py resume {interrupted.folder}" in " ".join(interrupted.stdout.split())
    seconds, versions = interrupted.summary["seconds"], interrupted.summary["versions"]
    outcome = resume(interrupted.folder, "--seconds", str(seconds + 3))
    assert outcome.code == 0, outcome.stderr
    [resumed] = outcome.of_kind(trace.Resumed)
    assert resumed.version == versions  # nothing was lost
    made = [event.t for event in outcome.of_kind(trace.Aggregated) if event.version <= versions]
    assert max(made) <= resumed.t <= seconds + 0.001
    assert outcome.summary["versions"] > versions
    assert outcome.summary["seconds"] >= seconds + 3 - 0.001
    assert outcome.summary["resumed"] == 1
    check_accounts(outcome)

    ended = resume(interrupted.folder)
    assert ended.code == 2
    assert "this run has ended" in ended.stderr


def test_a_killed_run_with_cluster_heads_continues_with_new_ones(tmp_path: Path) -> None:
    strategy = {"name": "eafl", "clusters": 2, "every": 4, "phi": 0.5, "patience": 20.0}
    changes = {"strategy": strategy, "devices": [{"profile": "rpi4", "link": "wifi", "count": 6}]}
    profile = write_profile(tmp_path, checkpoint={"versions": 1}, **changes)
    folder = killed(profile)
    outcome = resume(folder, "--seconds", str(_reached(folder) + 6))
    assert outcome.code == 0, outcome.stderr
    [resumed] = outcome.of_kind(trace.Resumed)
    assert outcome.summary["versions"] > resumed.version >= 1
    left = [event for event in outcome.of_kind(trace.Left) if event.reason == "the run was interrupted"]
    assert len(left) == 6
    assert [event for event in outcome.of_kind(trace.Grouped) if event.t > resumed.t]
    check_accounts(outcome)


def _edit_profile(folder: Path, changes: dict[str, Any], **of_devices: Any) -> None:
    path = folder / "profile.toml"
    table = tomllib.loads(path.read_text(encoding="utf-8")) | changes
    table["devices"][0] |= of_devices
    path.write_text(tomli_w.dumps(table), encoding="utf-8")


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "strategy": (lambda run: _edit_profile(run, {"strategy": "fedavg"}), "strategy.name is 'fedavg'"),
    "fewer devices": (lambda run: _edit_profile(run, {}, count=2), "devices[0].count is 2, but was 3"),
    "other names": (lambda run: _edit_profile(run, {}, name="pi"), "devices[0].name is 'pi', but was 'rpi4'"),
    "tensor": (lambda run: _flip(run / CHECKPOINT, -100), "latest.safetensors is damaged"),
    "line": (lambda run: _flip(run / "trace.jsonl", 1), "trace.jsonl, line 1: "),
}
"""What is changed in the folder of an interrupted run, and what ``resume`` says."""


def test_a_run_with_other_files_than_at_its_end_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    profile = write_profile(tmp_path, checkpoint={"versions": 1})
    folder = killed(profile)
    for name, (change, told) in CHANGES.items():
        copy = tmp_path / name
        shutil.copytree(folder, copy)
        change(copy)
        before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
        refused = resume(copy, "--seconds", str(_reached(folder) + 3))
        assert (refused.code, refused.stdout) == (2, ""), name
        assert refused.stderr.count("\n") == 1, refused.stderr
        assert told in refused.stderr, refused.stderr
        assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before, name


def _reached(folder: Path) -> float:
    """The emulated second of the last event."""
    return max(event.t for event in trace.read(folder / "trace.jsonl"))
