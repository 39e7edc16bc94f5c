"""Files that never end, never begin or unpack to far more than they are: refused in one line, whatever reads them.

Each command runs in a process with limited memory and time: the machine of whoever tests must survive a failure.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.testbed.cli.guarded import executed, refusal
from tests.testbed.examples import MINIMAL, write_profile
from tests.testbed.report.examples import write

UNPACKED = 8 << 30
_MEMBER = 64 << 20


def bomb(path: Path, line: bytes, first: bytes = b"") -> Path:
    """Write a packed file of some megabytes that unpacks to ``UNPACKED`` bytes: many members, each packed once."""
    member = gzip.compress(line * (_MEMBER // len(line)), 9)
    with path.open("wb") as file:
        file.write(gzip.compress(first))
        for _ in range(UNPACKED // _MEMBER):
            file.write(member)
    return path


def endless(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def sparse(path: Path) -> Path:
    """A terabyte of zeros that takes no space."""
    with path.open("wb") as file:
        file.truncate(1 << 40)
    return path


SPECIAL: list[tuple[Callable[[Path], Path], str]] = [
    (endless, "is a device, and only regular files are read"),
    (pipe, "is a pipe, and only regular files are read"),
]


@pytest.mark.parametrize(("make", "told"), [*SPECIAL, (sparse, "has more than 16 MiB")])
def test_a_profile_is_a_regular_file_of_limited_size(make: Callable[[Path], Path], told: str, tmp_path: Path) -> None:
    assert told in refusal("data", make(tmp_path / "mine.toml"))


@pytest.mark.parametrize(("make", "told"), [*SPECIAL, (sparse, "line 1: has more than 1,048,576 characters")])
@pytest.mark.parametrize("kind", ["csv", "mahimahi", "pensieve"])
def test_a_recorded_link_is_a_regular_file_of_limited_lines(
    make: Callable[[Path], Path], told: str, kind: str, tmp_path: Path
) -> None:
    assert told in refusal("trace", "import", kind, make(tmp_path / "link"), "--out", tmp_path / "out")


@pytest.mark.parametrize(("make", "told"), [*SPECIAL, (sparse, "has more than 1,048,576 characters")])
def test_the_traces_of_a_profile_are_regular_files_of_limited_lines(
    make: Callable[[Path], Path], told: str, tmp_path: Path
) -> None:
    make(tmp_path / "link.csv")
    link = 'devices = [{ profile = "rpi4", link = { up = { trace = "link.csv" } } }]'
    away = 'devices = [{ profile = "rpi4", availability = "link.csv" }]'
    for devices in (link, away):
        profile = write_profile(tmp_path, MINIMAL.partition("devices")[0] + devices)
        assert told in refusal("data", profile)


@pytest.mark.parametrize(
    ("kind", "line", "first", "told"),
    [
        ("csv", b"\n", b"t_s,mbps\n0,1\n", "has more than 10,000,000 lines"),
        ("csv", b"\0" * 64, b"t_s,mbps\n0,1\n", "line 3: has more than 1,048,576 characters"),
        ("pensieve", b" " * 999 + b"\n", b"0 1\n", "unpacks to more than 100 times its size"),
        ("plato", b" " * 64, b"{", "unpacks to more than 100 times its size"),
        ("plato", b"[" * 64, b'{"1":', "not valid JSON"),
        ("plato", b"1,1,", b'{"1":[', "unpacks to more than 100 times its size"),
    ],
    ids=["blank lines", "one line", "long lines", "blanks", "nested lists", "one list"],
)
def test_a_packed_file_that_unpacks_to_gigabytes_is_refused(
    kind: str, line: bytes, first: bytes, told: str, tmp_path: Path
) -> None:
    path = bomb(tmp_path / "link.gz", line, first)
    assert told in refusal("trace", "import", kind, path, "--out", tmp_path / "out")


REPEATED = b'{"kind":"refusal","t":1.0,"peer":"","reason":"x","count":1}\n'


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (REPEATED, "unpacks to more than 100 times its size"),
        (b"\0" * 64, "has more than 16 MiB; no event is so long"),
    ],
    ids=["many lines", "one line"],
)
def test_a_packed_trace_of_a_run_that_unpacks_to_gigabytes_is_refused(line: bytes, told: str, tmp_path: Path) -> None:
    trace = write(tmp_path)
    first = trace.read_bytes().partition(b"\n")[0] + b"\n"
    trace.unlink()
    bomb(tmp_path / "trace.jsonl.gz", line, first)
    for words in (("report", tmp_path), ("trace", "show", tmp_path), ("trace", "compare", tmp_path, tmp_path)):
        assert told in refusal(*words)


@pytest.mark.parametrize("make", [endless, pipe, sparse])
@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
def test_a_run_folder_with_another_thing_than_a_trace_is_refused(
    make: Callable[[Path], Path], name: str, tmp_path: Path
) -> None:
    make(tmp_path / name)
    assert "error: " in refusal("report", tmp_path)
    assert "error: " in refusal("report", tmp_path / name)


@pytest.mark.parametrize("make", [endless, pipe, sparse])
def test_other_files_of_a_run_are_left_out_if_they_never_end(make: Callable[[Path], Path], tmp_path: Path) -> None:
    write(tmp_path)
    make(tmp_path / "meta.json")
    done = executed("report", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "meta.json" in (tmp_path / "report.html").read_text(encoding="utf-8")
