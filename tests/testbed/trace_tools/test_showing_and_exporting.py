"""``trace show`` and ``trace export``, for runs and for rates."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from testbed.history import trace
from testbed.history.trace import Event, TraceWriter
from testbed.traces import rate
from testbed.traces.formats import mahimahi
from tests.testbed.examples import EVENTS
from tests.testbed.traces.files import only, printed, write

HEADER = EVENTS[0]


def moved(kind: type[Any], t: float, seconds: float, *, job: int, attempt: int = 0, dropped: bool = False) -> Event:
    event: Event = kind(
        t=t + seconds,
        device="a",
        ticket=job + 1,
        job=job,
        attempt=attempt,
        sent=t,
        asked=seconds,
        obtained=seconds,
        bytes=125_000,
        dropped=dropped,
    )
    return event


def trained(t: float, asked: float, obtained: float, job: int, device: str = "a") -> Event:
    return trace.Trained(
        t=t, device=device, ticket=job + 1, steps=10, asked=asked, obtained=obtained, checks=1, misses=[]
    )


def arrived(t: float, job: int, staleness: int) -> Event:
    return trace.Arrived(
        t=t,
        device="a",
        ticket=job + 1,
        due=t,
        received=t,
        handled=t,
        bytes=125_000,
        version=job,
        staleness=staleness,
        loss=None,
    )


RUN: tuple[Event, ...] = (
    HEADER,
    trace.Joined(t=0.0, device="a", pid=1, cores=[0], samples=100),
    trace.Joined(t=0.0, device="b", pid=2, cores=[0], samples=50),
    trace.Dispatched(t=0.0, device="a", ticket=1, version=0, steps=10),
    moved(trace.Downloaded, 0.0, 1.0, job=0, dropped=True),
    moved(trace.Downloaded, 1.0, 1.0, job=0, attempt=1),
    trace.Suspended(t=3.0, device="a", ticket=1, steps=3, asked=0.5, obtained=0.5),
    trained(4.5, 2.0, 2.5, 0),
    moved(trace.Uploaded, 4.5, 2.0, job=0),
    arrived(6.5, 0, 3),
    trace.Aggregated(t=6.5, version=1, tickets=[1], weights=[1.0], staleness=[3]),
    trace.Dispatched(t=6.5, device="a", ticket=2, version=1, steps=10),
    moved(trace.Downloaded, 6.5, 0.5, job=1),
    trained(8.0, 1.0, 1.0, 1),
    moved(trace.Uploaded, 8.0, 1.0, job=1),
    arrived(9.0, 1, 1),
    trace.Aggregated(t=9.0, version=2, tickets=[2], weights=[1.0], staleness=[1]),
    trace.Stopped(t=10.0, reason="over", version=2, in_flight=0),
)
PROFILE = "[training]\nsteps = 10\nbatch = 20\n"


def run(folder: Path, events: Sequence[Event] = RUN, name: str = "trace.jsonl", profile: str | None = PROFILE) -> Path:
    folder.mkdir()
    path = folder / "trace.jsonl"
    writer = TraceWriter(path)
    for event in events:
        writer.write(event)
    writer.close()
    if name != path.name:
        (folder / name).write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    if profile is not None:
        (folder / "profile.toml").write_text(profile, encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")


# ---- show


def shown(capsys: pytest.CaptureFixture[str], place: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(printed(capsys, "trace", "show", place, "--format", "json"))
    return table


def test_a_run_is_summarised_by_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = shown(capsys, run(tmp_path / "run"))
    a, b = table["devices"]
    assert (a["device"], a["jobs"], a["drops"], a["suspensions"], a["suspended_s"]) == ("a", 2, 1, 1, 0.5)
    assert a["compute"] == {"asked": {"p50": 1.0, "p99": 2.0}, "obtained": {"p50": 1.0, "p99": 2.5}}
    assert a["download"]["obtained"] == {"p50": 1.0, "p99": 1.0}
    assert a["upload"]["asked"] == {"p50": 1.0, "p99": 2.0}
    assert a["staleness"] == {"mean": 2.0, "max": 3}
    assert (b["device"], b["jobs"], b["upload"]["asked"], b["staleness"]) == ("b", 0, None, None)
    assert {key: table["all"][key] for key in a if key != "device"} == {key: a[key] for key in a if key != "device"}
    assert (table["seconds"], table["versions"], table["stopped"], table["notes"]) == (10.0, 2, "over", [])


def test_a_run_is_a_table_to_read_in_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    first, *lines = printed(capsys, "trace", "show", run(tmp_path / "run")).splitlines()
    assert first.endswith("fedavg, seed 7; 10 s, 2 versions, 2 devices, 18 events")
    assert max(map(len, lines)) <= 80
    assert [line.split() for line in lines[2:5]] == [
        ["a", "2", "1", "1", "(0.5", "s)", "2", "3", "download", "1", "1", "1", "1"],
        ["compute", "1", "2", "1", "2.5"],
        ["upload", "1", "2", "1", "2"],
    ]
    assert lines[5].split() == ["b", "0", "0", "0", "–", "–", "download", "–", "–", "–", "–"]


SCRIPTED = (
    trace.Scripted(t=2.5, device="a", do="suspend", seconds=0.5),
    trace.Scripted(t=4.0, device="b", do="kill"),
    trace.Scripted(t=5.0, device="a", do="rate", value=0.5),
)


def test_scripted_events_are_shown_as_they_took_effect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "run", [*RUN[:-1], *SCRIPTED, RUN[-1]])
    assert [(row["t"], row["device"], row["do"]) for row in shown(capsys, folder)["scripted"]] == [
        (2.5, "a", "suspend"),
        (4.0, "b", "kill"),
        (5.0, "a", "rate"),
    ]
    lines = printed(capsys, "trace", "show", folder).splitlines()
    assert lines[-3:] == ["at 2.5 s: suspend for 0.5 s: a", "at 4 s: kill: b", "at 5 s: rate 0.5: a"]


def test_computing_without_a_throttle_has_no_asked_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = shown(capsys, run(tmp_path / "run", [HEADER, trained(1.0, 0.0, 0.5, 0)]))
    assert table["all"]["compute"] == {"asked": None, "obtained": {"p50": 0.5, "p99": 0.5}}
    assert table["notes"] == ["the trace has no end: the run continues or was killed"]


@pytest.mark.parametrize("by_file", [False, True])
@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
def test_a_run_is_found_by_its_folder_or_its_trace_packed_or_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, by_file: bool
) -> None:
    folder = run(tmp_path / "run", name=name)
    assert shown(capsys, folder / name if by_file else folder)["versions"] == 2


def test_a_torn_last_line_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run(tmp_path / "run") / "trace.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    table = shown(capsys, path)
    assert table["events"] == 17
    assert table["notes"][0] == f"{path}, line 18: is torn, as a crash leaves it; it is left out"
    assert f"note: {path}, line 18: is torn" in printed(
        capsys, "trace", "export", path, "--format", "csv", "--out", tmp_path / "out"
    )


def edited(folder: Path, old: str, new: str) -> Path:
    path = folder / "trace.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (f'"schema":{trace.SCHEMA}', '"schema":99', "line 1: schema 99; this version reads"),
        (f'"schema":{trace.SCHEMA}', '"schema":99,"new":1', "line 1: schema 99; this version reads"),
        (trace.UNITS, "minutes", "line 1: units 'minutes'; this version reads"),
        ('"kind":"aggregated","t":9.0', '"kind":"aggregated","t":2.0', "line 17: t is 2, after 9: times run backwards"),
        ('"kind":"joined"', '"kind":"Joined"', "line 2: "),
    ],
)
def test_a_wrong_trace_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, problem: str
) -> None:
    path = edited(run(tmp_path / "run"), old, new)
    line = printed(capsys, "trace", "show", path, code=2)
    assert line.startswith(f"error: {path}, {problem}")
    out = tmp_path / "out"
    assert problem in printed(capsys, "trace", "export", path, "--format", "csv", "--out", out, code=2)
    assert list(out.iterdir()) == []


def test_an_incomplete_packed_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run(tmp_path / "run", name="trace.jsonl.gz") / "trace.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-12])
    assert "cannot be unpacked" in printed(capsys, "trace", "show", path, code=2)


def test_a_path_that_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no such run folder or trace" in printed(capsys, "trace", "show", tmp_path / "none", code=2)
    assert "has no trace.jsonl" in printed(capsys, "trace", "show", tmp_path, code=2)


def test_a_rate_is_summarised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = shown(capsys, write(tmp_path / "r.csv.gz", "t_s,mbps\n0,4\n5,0\n8,6\n10,\n"))
    assert (table["seconds"], table["rows"], table["mean_mbps"]) == (10, 3, pytest.approx(3.2))
    assert (table["p1_mbps"], table["p50_mbps"], table["p99_mbps"]) == (0, pytest.approx(4), pytest.approx(6))
    assert table["outage"] == pytest.approx(0.3)


def test_availability_is_summarised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = printed(capsys, "trace", "show", write(tmp_path / "r.csv", "t_s,available\n0,1\n5,0\n8,\n"))
    assert "seconds 8  rows 2  available 0.625" in output


@pytest.mark.parametrize("what", ["run", "script", "rate", "availability"])
def test_a_picture_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    place = {
        "run": lambda: run(tmp_path / "run"),
        "script": lambda: run(tmp_path / "run", [*RUN[:-1], *SCRIPTED, RUN[-1]]),
        "rate": lambda: write(tmp_path / "r.csv", "t_s,mbps\n0,4\n5,0\n8,\n"),
        "availability": lambda: write(tmp_path / "r.csv", "t_s,available\n0,1\n5,0\n8,\n"),
    }[what]()
    png = tmp_path / "picture"
    printed(capsys, "trace", "show", place, "--png", png)
    assert png.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_message_has_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    folder = run(tmp_path / "run")
    assert "pip install" in printed(capsys, "trace", "show", folder, "--png", tmp_path / "x.png", code=2)
    printed(capsys, "trace", "show", folder)


def test_a_picture_that_cannot_be_written_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "none" / "x.png"
    assert f"--png {place}: cannot be written" in printed(
        capsys, "trace", "show", run(tmp_path / "run"), "--png", place, code=2
    )


def test_names_in_a_foreign_trace_cannot_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = msgspec.structs.replace(HEADER, name="\x1b]0;owned\x07", strategy="\x9b31m")
    place = run(tmp_path / "run", [header, trained(1.0, 1.0, 1.0, 0, device="\x1b[2J[red]a\nb")])
    for words in (["show", place], ["show", place, "--format", "json"]):
        output = printed(capsys, "trace", *words)
        assert not set(output) & set("\x1b\x07\x9b\r")
    output = printed(capsys, "trace", "show", place)
    assert "\\x1b]0;owned\\x07" in output
    assert "\\x1b[2J[red]a" in output


# ---- export


def test_jobs_are_rows_with_asked_and_obtained_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert printed(capsys, "trace", "export", run(tmp_path / "run"), "--format", "csv", "--out", out).strip() == str(
        out / "jobs.csv"
    )
    about, *lines = (out / "jobs.csv").read_text(encoding="utf-8").splitlines()
    assert about.startswith("# ")
    assert json.loads(about[2:])["schema_version"] == 1
    assert json.loads(about[2:])["dilation"] == 2.0
    assert lines[0] == "t_s,device,kind,requested,actual,size_bytes,seed"
    rows = [
        (row["t_s"], row["kind"], row["requested"], row["actual"], row["size_bytes"]) for row in csv.DictReader(lines)
    ]
    assert rows == [
        ("1.0", "down", "1.0", "1.0", "125000"),
        ("1.0", "drop", "1.0", "1.0", "125000"),
        ("2.0", "down", "1.0", "1.0", "125000"),
        ("2.5", "suspend", "0.5", "0.5", ""),
        ("3.0", "resume", "0.5", "0.5", ""),
        ("4.5", "compute", "2.0", "2.5", ""),
        ("6.5", "up", "2.0", "2.0", "125000"),
        ("7.0", "down", "0.5", "0.5", "125000"),
        ("8.0", "compute", "1.0", "1.0", ""),
        ("9.0", "up", "1.0", "1.0", "125000"),
    ]
    assert {row["seed"] for row in csv.DictReader(lines)} == {"7"}


def test_a_device_whose_name_is_a_formula_is_marked_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, out = run(tmp_path / "run", [HEADER, trained(1.0, 1.0, 1.0, 0, device="=1+1")]), tmp_path / "out"
    printed(capsys, "trace", "export", place, "--format", "csv", "--out", out)
    assert (out / "jobs.csv").read_text(encoding="utf-8").splitlines()[2].split(",")[:3] == ["1.0", "'=1+1", "compute"]


def test_links_of_a_run_are_exported_for_mahimahi(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    output = printed(capsys, "trace", "export", run(tmp_path / "run"), "--format", "mahimahi", "--out", out)
    assert sorted(path.name for path in out.iterdir()) == ["a.down", "a.up"]
    assert "until the next transfer begins" in output
    down, up = mahimahi.link(out / "a.down", 500), mahimahi.link(out / "a.up", 500)
    assert (down.period, up.period) == (10.0, 10.0)
    # 1 Mbit in 1 s until the one that took 0.5 s began, at 6.5 s
    assert down.bytes_between(0, 6.5) == pytest.approx(6.5 * 125_000, abs=1500)
    assert down.bytes_between(6.5, 10) == pytest.approx(3.5 * 250_000, abs=1500)
    assert up.bytes_between(0, 8) == pytest.approx(8 * 62_500, abs=1500)


def test_exported_links_are_imported_with_an_error_below_one_percent_per_second(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(5)
    began, mbps = np.arange(0.0, 60.0, 0.75), rng.uniform(2.0, 40.0, 80)
    events = [
        moved(kind, begin, 1.0 / each, job=job)  # 125,000 bytes are 1 Mbit
        for kind in (trace.Downloaded, trace.Uploaded)
        for job, (begin, each) in enumerate(zip(began.tolist(), mbps.tolist(), strict=True))
    ]
    end = trace.Stopped(t=60.0, reason="over", version=0, in_flight=0)
    folder, out = run(tmp_path / "run", [HEADER, *events, end]), tmp_path / "out"
    printed(capsys, "trace", "export", folder, "--format", "mahimahi", "--out", out)
    words = ("--up", out / "a.up", "--delay", "0", "--out", tmp_path / "mine")
    printed(capsys, "trace", "import", "mahimahi", out / "a.down", *words)
    # at each moment, the rate of the transfer that began last
    moments = np.arange(0.0, 60.0, 0.05) + 0.025
    wanted = mbps[np.searchsorted(began, moments, side="right") - 1].reshape(60, 20).mean(axis=1)
    for name in ("a.down.csv", "a.up.csv"):
        link = rate.read(tmp_path / "mine" / name)
        assert link.period == 60.0
        got = [link.bytes_between(second, second + 1) * 8e-6 for second in range(60)]
        assert got == pytest.approx(wanted.tolist(), rel=0.01)


def test_absences_do_not_count_in_the_rate_of_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    away = trace.Uploaded(
        t=5.0,
        device="a",
        ticket=1,
        job=0,
        attempt=0,
        sent=0.0,
        asked=5.0,
        obtained=5.0,
        bytes=125_000,
        dropped=False,
        absent=4.0,
    )
    out = tmp_path / "out"
    printed(capsys, "trace", "export", run(tmp_path / "run", [HEADER, away]), "--format", "mahimahi", "--out", out)
    assert mahimahi.link(out / "a.up", 100).mean == pytest.approx(1e6, rel=0.01)


def test_an_exported_run_is_imported_as_clients_of_fedscale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    printed(capsys, "trace", "export", run(tmp_path / "run"), "--format", "fedscale-json", "--out", out)
    capacity = only("fedscale-capacity", out / "client_device_capacity.json")
    # 3.5 s for two jobs of 10 steps with 20 samples
    assert capacity.device == {"seconds_per_sample": pytest.approx(3.5 / 400)}
    assert capacity.link["down"]["mbit"] == pytest.approx(5 / 5.5)
    table = json.loads((out / "client_behave_trace.json").read_text(encoding="utf-8"))
    assert (table["a"]["active"], table["a"]["inactive"]) == ([0.0, 3.0], [2.5, 10.0])
    assert (table["b"]["active"], table["b"]["inactive"], table["b"]["finish_time"]) == ([0.0], [10.0], 10.0)


def test_a_device_that_is_killed_and_rejoins_was_present_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    killed = [
        trace.Scripted(t=4.0, device="b", do="kill"),
        trace.Left(t=6.0, device="b", reason="it was silent for too long"),
        trace.Scripted(t=7.0, device="b", do="rejoin"),
        trace.Joined(t=7.0, device="b", pid=3, cores=[0], samples=50),
        trace.Suspended(t=9.0, device="b", ticket=0, asked=1.0, obtained=1.0),
    ]
    folder = run(tmp_path / "run", [*RUN[:-1], *killed, RUN[-1]])
    printed(capsys, "trace", "export", folder, "--format", "fedscale-json", "--out", out)
    b = json.loads((out / "client_behave_trace.json").read_text(encoding="utf-8"))["b"]
    assert (b["active"], b["inactive"]) == ([0.0, 7.0, 9.0], [4.0, 8.0, 10.0])


def test_devices_with_the_same_file_name_do_not_overwrite_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("å-1", "ö-1")
    events = [msgspec.structs.replace(moved(trace.Uploaded, 0.0, 1.0, job=0), device=name) for name in names]
    out = tmp_path / "out"
    output = printed(
        capsys, "trace", "export", run(tmp_path / "run", [HEADER, *events]), "--format", "mahimahi", "--out", out
    )
    assert sorted(path.name for path in out.iterdir()) == ["_-1.up", "_-1_.up"]
    assert "note: _-1_.up belongs to ö-1" in output


def test_the_batch_is_required_without_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = run(tmp_path / "run", profile=None), tmp_path / "out"
    words = ("trace", "export", folder, "--format", "fedscale-json", "--out", out)
    assert "--batch" in printed(capsys, *words, code=2)
    printed(capsys, *words, "--batch", "20")
    capacity = only("fedscale-capacity", out / "client_device_capacity.json")
    assert capacity.device == {"seconds_per_sample": pytest.approx(3.5 / 400)}


def test_a_rate_is_exported_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    for name in ("lte.up.csv", "mine.csv.gz"):
        printed(
            capsys,
            "trace",
            "export",
            write(tmp_path / name, "t_s,mbps\n0,12\n1,\n"),
            "--format",
            "mahimahi",
            "--out",
            out,
        )
    assert sorted(path.name for path in out.iterdir()) == ["lte.up", "mine.down"]
    assert len((out / "lte.up").read_text(encoding="ascii").splitlines()) == 1000


@pytest.mark.parametrize("form", ["csv", "fedscale-json"])
def test_a_rate_has_no_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    path = write(tmp_path / "r.csv", "t_s,mbps\n0,12\n1,\n")
    assert "is not a run" in printed(
        capsys, "trace", "export", path, "--format", form, "--out", tmp_path / "out", code=2
    )


def test_a_link_of_too_many_packets_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "r.csv", "t_s,mbps\n0,10000\n3600,\n")
    words = ("trace", "export", path, "--format", "mahimahi", "--out", tmp_path / "out")
    assert "would have 3e+09 lines" in printed(capsys, *words, code=2)


@pytest.mark.parametrize(
    ("events", "form", "problem"),
    [
        ([HEADER], "mahimahi", "no transfer"),
        ([HEADER], "fedscale-json", "no device finished a job"),
        ([], "csv", "does not begin with a header"),
    ],
)
def test_an_empty_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], events: list[Event], form: str, problem: str
) -> None:
    folder = run(tmp_path / "run", events)
    assert problem in printed(capsys, "trace", "export", folder, "--format", form, "--out", tmp_path / "out", code=2)


def test_matplotlib_is_not_loaded_without_a_picture(tmp_path: Path) -> None:
    show = ["trace", "show", str(run(tmp_path / "run"))]
    code = f"import sys, testbed.cli.main; testbed.cli.main.main({show}); sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, capture_output=True)
