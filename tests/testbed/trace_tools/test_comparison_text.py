"""``trace compare``: the results of several runs, and whether they met the same delays."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testbed.cli import main
from testbed.emulation.recorded import RecordedJob, RecordedSuspension, RecordedTransfer, Recording
from testbed.history import trace
from testbed.history.trace import Event, TraceWriter
from testbed.trace_tools.job_pairs import TOLERANCE, DeviceDifferences, JobDifference, compare
from tests.testbed.traces.files import printed

# ---- jobs


def job(
    *,
    down: float = 0.5,
    up: float = 0.75,
    step: float | None = 0.125,
    lost: bool = False,
    suspended: float | None = None,
) -> RecordedJob:
    return RecordedJob(
        downloads=[RecordedTransfer(down, False)],
        uploads=[RecordedTransfer(up, lost), *([RecordedTransfer(up, False)] if lost else [])],
        step_seconds=step,
        suspension=None if suspended is None else RecordedSuspension(1, suspended),
    )


BEGUN = RecordedJob(downloads=[RecordedTransfer(0.5, False)])
"""A job that the end of the run or a newer model cut off."""
UNKNOWN = RecordedJob()


def first(*runs: Recording) -> JobDifference:
    found = compare("a", runs).first
    assert found is not None
    return found


def test_jobs_with_the_same_delays_are_equal() -> None:
    jobs = [job(), job(lost=True), job(suspended=0.25)]
    pairs = compare("a", [jobs, jobs, jobs])
    assert (pairs.jobs, pairs.first) == (3, None)
    assert pairs.differences(same_absences=False) == DeviceDifferences(
        device="a",
        jobs=3,
        computing_s=0.0,
        download_s=0.0,
        upload_s=0.0,
        same_drops=True,
        same_suspensions=True,
        same_absences=False,
    )


def test_only_jobs_that_all_runs_did_count() -> None:
    assert compare("a", [[job()] * 3, [job()] * 5, [job(), UNKNOWN, job(), job()]]).jobs == 2
    assert compare("a", [[job()], []]).jobs == 0


@pytest.mark.parametrize(
    ("other", "what", "attempt", "apart"),
    [
        (job(down=0.25), "download", 0, 0.25),
        (job(up=1.75), "upload", 0, 1.0),
        (job(step=0.25), "computing", 0, 0.125),
        (job(suspended=0.5), "suspension", 0, 0.5),
        (job(lost=True), "upload lost", 0, 1.0),
    ],
)
def test_a_difference_is_found_with_its_kind_and_attempt(
    other: RecordedJob, what: str, attempt: int, apart: float
) -> None:
    found = first([job(), job()], [job(), other])
    assert (found.job, found.what, found.attempt, found.apart) == (1, what, attempt, apart)


def test_a_later_attempt_is_compared_too() -> None:
    one, other = (
        [RecordedJob(downloads=[RecordedTransfer(0.5, True), RecordedTransfer(seconds, False)])]
        for seconds in (0.5, 0.75)
    )
    assert (first(one, other).what, first(one, other).attempt) == ("download", 1)


def test_the_first_difference_is_the_earliest_one() -> None:
    found = first([job(), job(down=1.0), job(step=1.0)], [job(step=0.25, up=9.0), job(), job()])
    assert (found.job, found.what, found.observed) == (0, "computing", (0.125, 0.25))


def test_a_row_has_the_greatest_differences() -> None:
    pairs = compare("a", [[job(), job()], [job(up=1.0), job(up=2.0, lost=True, suspended=1.0)]])
    row = pairs.differences(same_absences=True)
    assert (row.upload_s, row.same_drops, row.same_suspensions, row.same_absences) == (1.25, False, False, True)


def test_a_job_that_one_run_cut_off_is_compared_up_to_there() -> None:
    assert compare("a", [[job(lost=True, suspended=0.5)], [BEGUN]]).first is None
    found = first([job()], [BEGUN], [job(up=1.0)])  # the other two went on
    assert (found.what, found.observed) == ("upload", (0.75, None, 1.0))


def test_a_job_without_a_suspension_is_known_when_its_upload_began() -> None:
    suspended = RecordedJob(downloads=[RecordedTransfer(0.5, False)], suspension=RecordedSuspension(2, 0.5))
    assert compare("a", [[suspended], [BEGUN]]).first is None
    assert first([suspended], [job()]).what == "suspension"


def test_the_step_of_a_suspension_may_differ() -> None:
    fewer = msgspec.structs.replace(job(suspended=0.5), suspension=RecordedSuspension(0, 0.5))
    assert compare("a", [[job(suspended=0.5)], [fewer]]).first is None


def test_rounding_is_no_difference() -> None:
    near, far = job(step=0.125 + TOLERANCE / 2), job(step=0.125 + TOLERANCE * 2)
    pairs = compare("a", [[job()], [near]])
    assert pairs.first is None
    assert 0 < pairs.differences(same_absences=True).computing_s < TOLERANCE
    assert first([job()], [far]).what == "computing"


# ---- runs


def header(strategy: str, replay: str = "", seed: int = 7) -> Event:
    return trace.Header(
        t=0.0,
        schema=trace.SCHEMA,
        name="demo",
        strategy=strategy,
        seed=seed,
        dilation=1.0,
        demand=0.5,
        pressure=None,
        started="2026",
        host="h",
        replay=replay,
    )


def job_events(device: str, number: int, *, asked: float, obtained: float, up: float, lost: bool) -> Iterator[Event]:
    """The events of one job of 4 steps, up to its version."""
    began, ticket = 3.0 * number, 1 + 2 * number + (device == "b")
    sent: dict[str, Any] = {"device": device, "ticket": ticket, "job": number, "sent": began, "bytes": 16}
    yield trace.Dispatched(t=began, device=device, ticket=ticket, version=number, steps=4)
    yield trace.Downloaded(t=began, attempt=0, asked=0.5, obtained=0.625, dropped=False, **sent)
    yield trace.Trained(
        t=began + 1, device=device, ticket=ticket, steps=4, asked=asked, obtained=obtained, checks=4, misses=[]
    )
    yield trace.Uploaded(t=began + 2, attempt=0, asked=up, obtained=up, dropped=lost, **sent)
    if lost:
        yield trace.Uploaded(t=began + 2, attempt=1, asked=up, obtained=up, dropped=False, **sent)


def run(
    folder: Path,
    strategy: str = "fedavg",
    *,
    replay: str = "",
    devices: str = "ab",
    jobs: int = 2,
    asked: float = 1.0,
    obtained: float = 1.25,
    up: float = 0.75,
    lost: bool = False,
    scores: tuple[float, ...] = (),
    torn: bool = False,
) -> Path:
    """A run folder. Each job makes a version, with staleness 0, and the n-th version has the n-th score."""
    folder.mkdir()
    writer = TraceWriter(folder / "trace.jsonl")
    writer.write(header(strategy, replay))
    for device in devices:
        writer.write(trace.Joined(t=0.0, device=device, pid=1, cores=[0], samples=10))
    version = 0
    for number in range(jobs):
        for device in devices:
            for event in job_events(device, number, asked=asked, obtained=obtained, up=up, lost=lost and device == "b"):
                writer.write(event)
        now = 3.0 * number + 2.75
        for device in devices:
            ticket = 1 + 2 * number + (device == "b")
            version += 1
            writer.write(
                trace.Arrived(
                    t=now,
                    device=device,
                    ticket=ticket,
                    due=now,
                    received=now,
                    handled=now,
                    bytes=16,
                    version=number,
                    staleness=1,
                    loss=None,
                )
            )
            writer.write(trace.Aggregated(t=now, version=version, tickets=[ticket], weights=[1.0], staleness=[1]))
    for number, score in enumerate(scores, 1):
        metrics = {"accuracy": score, "loss": 1 - score}
        writer.write(trace.Scored(t=9.0, version=number, made=2.0 * number, metrics=metrics))
    writer.write(trace.Stopped(t=10.0, reason="over", version=version, in_flight=0))
    writer.close()
    if torn:
        path = folder / "trace.jsonl"
        path.write_bytes(path.read_bytes()[:-5])
    return folder


def compared(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, dict[str, Any]]:
    code = main.main(["trace", "compare", *map(str, words), "--format", "json"])
    output = capsys.readouterr()
    assert output.err == ""
    return code, json.loads(output.out)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return run(tmp_path / "recorded", "fedasync", scores=(0.25, 0.5, 0.75))


@pytest.fixture
def replayed(tmp_path: Path) -> Path:
    """A replay that was asked for the seconds of the recorded run and obtained others."""
    return run(tmp_path / "replayed", "fedbuff", replay="schedule", asked=1.25, obtained=9.0, scores=(0.5, 0.5))


def test_asked_seconds_of_a_replay_are_compared_with_obtained_ones_of_the_recording(
    recorded: Path, replayed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, table = compared(capsys, recorded, replayed, replayed)
    assert (code, table["equal"], table["jobs"], table["first_difference"]) == (0, True, 4, None)
    assert table["verdict"] == (
        "equal delays: each of the 4 jobs that all runs did met the same delays, drops and suspensions (within 1e-06 s)"
    )
    assert (table["same_devices"], table["notes"]) == (True, [])
    assert [(row["device"], row["jobs"], row["computing_s"]) for row in table["devices"]] == [("a", 2, 0), ("b", 2, 0)]


def test_a_replay_of_asked_seconds_is_compared_by_asked_seconds(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = run(tmp_path / "asked", replay="schedule", asked=1.0)
    code, table = compared(capsys, recorded, other)
    assert (code, table["first_difference"]["what"]) == (1, "computing")
    [note] = table["notes"]
    assert note == "for computing of run 1, no replay, the obtained seconds count; --use asked compares the asked ones"
    assert compared(capsys, recorded, other, "--use", "asked")[0] == 0


def test_two_ordinary_runs_may_be_compared(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = run(tmp_path / "other", obtained=1.5)
    assert compared(capsys, recorded, other)[0] == 1
    assert compared(capsys, recorded, other, "--use", "asked")[0] == 0


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"up": 1.0}, "first: a, job 0, attempt 0 of its upload: 0.75 s in run 1, 1 in run 2 (0.25 apart)"),
        ({"asked": 1.5}, "first: a, job 0, computing: 312.5 ms per step in run 1, 375 in run 2 (62.5 apart)"),
        ({"lost": True}, "first: b, job 0, attempt 0 of its upload: lost in run 2, not in run 1"),
    ],
)
def test_the_verdict_names_the_first_difference_and_its_size(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], problem: str
) -> None:
    other = run(tmp_path / "other", replay="schedule", **({"asked": 1.25} | changes))
    code, table = compared(capsys, recorded, other)
    assert (code, table["equal"]) == (1, False)
    devices = 1 if "lost" in changes else 2
    assert table["verdict"] == (f"not equal: {devices} of 2 devices differ (by more than 1e-06 s); {problem}")


def test_a_run_has_a_row_with_its_results(recorded: Path, replayed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = compared(capsys, recorded, replayed)[1]
    assert table["target_accuracy"] == 0.5  # both reached it
    first, second = table["runs"]
    assert first == {
        "trace": str(recorded / "trace.jsonl"),
        "name": "demo",
        "strategy": "fedasync",
        "seed": 7,
        "replay": "",
        "versions": 4,
        "seconds": 10.0,
        "arrivals": 4,
        "mean_staleness": 1.0,
        "max_staleness": 1,
        "accuracy": 0.75,
        "loss": 0.25,
        "seconds_to_target": 4.0,
    }
    assert (second["strategy"], second["replay"], second["seconds_to_target"]) == ("fedbuff", "schedule", 2.0)


def test_each_trace_is_read_once(
    recorded: Path, replayed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, read = [], trace.read

    def counting(path: Path, torn: Callable[[int], None] = lambda line: None) -> Iterator[Event]:
        opened.append(path)
        return read(path, torn)

    monkeypatch.setattr(trace, "read", counting)
    assert compared(capsys, recorded, replayed)[0] == 0
    assert opened == [recorded / "trace.jsonl", replayed / "trace.jsonl"]


def test_a_target_may_be_given(recorded: Path, replayed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = compared(capsys, recorded, replayed, "--target", "0.7")[1]
    assert [run["seconds_to_target"] for run in table["runs"]] == [6.0, None]


def test_runs_that_were_not_scored_have_no_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "one")
    code, table = compared(capsys, folder, folder)
    assert (code, table["target_accuracy"]) == (0, None)
    assert {table["runs"][0][key] for key in ("accuracy", "loss", "seconds_to_target")} == {None}


def test_a_device_that_a_run_lacks_is_named(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, table = compared(capsys, recorded, run(tmp_path / "fewer", replay="schedule", devices="a", asked=1.25))
    assert (code, table["same_devices"], [row["device"] for row in table["devices"]]) == (0, False, ["a"])
    assert table["notes"] == ["the runs have different devices: run 2 has no b"]


def test_runs_without_a_job_in_common_are_not_equal(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, table = compared(capsys, recorded, run(tmp_path / "idle", jobs=0))
    assert (code, table["equal"]) == (1, False)
    assert table["verdict"] == "nothing to compare: no device did a job in all runs"


def test_traces_may_be_packed_and_torn(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = recorded / "trace.jsonl"
    packed = recorded / "trace.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    torn = run(tmp_path / "torn", replay="schedule", asked=1.25, torn=True)
    code, table = compared(capsys, packed, torn)
    assert (code, table["runs"][0]["trace"]) == (0, str(packed))
    path = torn / "trace.jsonl"
    lines = len(path.read_bytes().splitlines())
    assert table["notes"] == [
        f"{path}, line {lines}: is torn, as a crash leaves it; it is left out",
        f"{path}: has no end: the run continues or was killed",
    ]


# ---- on the terminal


@pytest.mark.parametrize("columns", [80, 120])
def test_a_comparison_fits_the_terminal(
    recorded: Path, replayed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    output = printed(capsys, "trace", "compare", recorded, replayed)
    lines = [line.split() for line in output.splitlines()]
    assert f"2  {replayed}/trace.jsonl: fedbuff, seed 7, replay (schedule)" in output
    assert ["1", "fedasync", "4", "10", "4", "1", "/", "1", "0.75", "0.25", "4"] in lines
    assert ["a", "2", "0", "0", "0", "same", "same"] in lines
    assert "…" not in output
    tables = [line for line in output.splitlines() if line[:4] in ("run ", "diff", "1 fe", "a   ")]
    assert len(tables) == 4
    assert all(len(line) <= columns for line in tables)


def test_a_difference_is_in_its_row_and_the_exit_code(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = run(tmp_path / "[red]", replay="schedule", asked=1.5, lost=True)
    assert main.main(["trace", "compare", str(recorded), str(other)]) == 1
    output = capsys.readouterr().out
    assert f"2  {other}/trace.jsonl: fedavg" in output  # a name may look like markup
    rows = [line.split() for line in output.splitlines()]
    assert ["a", "2", "62", "0", "0", "same", "same"] in rows
    assert ["b", "2", "62", "0", "0", "differ", "same"] in rows
    assert "not equal: 2 of 2 devices" in output


def test_runs_that_cannot_be_compared_are_refused_in_one_line(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "there is no such run folder" in printed(capsys, "trace", "compare", recorded, tmp_path / "none", code=2)
    path = recorded / "trace.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    beheaded = tmp_path / "beheaded.jsonl"
    beheaded.write_bytes(b"".join(lines[1:]))
    assert "no header comes before it" in printed(capsys, "trace", "compare", recorded, beheaded, code=2)
    beheaded.write_bytes(b"".join([lines[0], *lines[2:]]))  # device a never joined
    assert "its events are inconsistent ('a')" in printed(capsys, "trace", "compare", recorded, beheaded, code=2)
    beheaded.write_bytes(b"{}\n")
    assert "line 1: " in printed(capsys, "trace", "compare", recorded, beheaded, code=2)


@pytest.mark.parametrize(
    ("away", "equal"),
    [([], False), ([(4.5, 1.0)], True), ([(4.75, 1.0)], False), ([(4.5, 1.0), (7.0, 0.5)], False)],
)
def test_devices_with_other_absences_are_named(
    recorded: Path, replayed: Path, capsys: pytest.CaptureFixture[str], away: list[tuple[float, float]], equal: bool
) -> None:
    """That is a matter of the clock, and of no job; an absence after the end of one run is not compared."""
    for folder, absences in ((recorded, [(4.5, 1.0), (9.75, 0.5)]), (replayed, away)):
        with (folder / "trace.jsonl").open("ab") as file:
            for back, seconds in absences:
                event = trace.Suspended(t=back, device="a", ticket=0, asked=seconds, obtained=seconds, away=True)
                file.write(msgspec.json.encode(event) + b"\n")
    recorded_end = (recorded / "trace.jsonl").read_bytes().replace(b'"t":10.0', b'"t":9.5')
    (recorded / "trace.jsonl").write_bytes(recorded_end)
    code, table = compared(capsys, recorded, replayed)
    assert (code, table["equal"]) == ((0, True) if equal else (1, False))
    assert [row["same_absences"] for row in table["devices"]] == [equal, True]
    if not equal:
        assert table["verdict"] == "not equal: 1 of 2 devices were absent at other times: a"
