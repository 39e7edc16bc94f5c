"""Standard streams without a reader, on a full disk, closed, and in encodings that lack characters."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest

from testbed.common.terminal.output_stream import OutputLost, OutputStream
from tests.live.runs import ROOT


def without_reader() -> TextIO:
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w", buffering=1, encoding="utf-8")


def on_full_disk() -> TextIO:
    return Path("/dev/full").open("w", buffering=1, encoding="utf-8")


def closed() -> TextIO:
    stream = io.StringIO()
    stream.close()
    return stream


def end(stream: TextIO) -> None:
    """Close a stream whose buffer cannot be written."""
    try:
        stream.close()
    except OSError:
        assert stream.closed


@pytest.mark.parametrize("broken", [without_reader, on_full_disk, closed])
def test_what_cannot_be_written_is_dropped(broken: Callable[[], TextIO]) -> None:
    stream = broken()
    output = OutputStream(lambda: stream)
    for _ in range(3):
        print("a line", "x" * 100_000, file=output, flush=True)
    assert not output.isatty()
    end(stream)


@pytest.mark.parametrize(
    ("broken", "gone", "reason"),
    [
        (without_reader, True, "Broken pipe"),
        (on_full_disk, False, "No space left on device"),
        (closed, False, "Bad file descriptor"),
    ],
)
def test_a_needed_output_that_is_lost_is_reported(broken: Callable[[], TextIO], gone: bool, reason: str) -> None:
    stream = broken()
    output = OutputStream(lambda: stream)
    output.is_needed = True
    with pytest.raises(OutputLost) as caught:
        print("a line", file=output, flush=True)
    assert (caught.value.is_reader_gone, caught.value.reason) == (gone, reason)
    end(stream)


def test_a_disk_that_has_space_again_gets_the_later_lines(tmp_path: Path) -> None:
    full, file = on_full_disk(), tmp_path / "log"
    with file.open("w", encoding="utf-8") as log:
        streams = [full, log]
        output = OutputStream(lambda: streams[0])
        print("lost", file=output)
        del streams[0]
        print("kept", file=output)
    assert file.read_text(encoding="utf-8") == "kept\n"
    end(full)


def test_an_output_that_is_nowhere_takes_everything() -> None:
    output = OutputStream(lambda: None)
    print("a line", file=output, flush=True)
    assert (output.encoding, output.isatty()) == ("utf-8", False)
    with pytest.raises(io.UnsupportedOperation):
        output.fileno()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_characters_that_an_encoding_lacks_become_escapes_of_json(encoding: str) -> None:
    data = io.BytesIO()
    with io.TextIOWrapper(data, encoding=encoding) as stream:
        output, text = OutputStream(lambda: stream), json.dumps(["größe …", "😀"], ensure_ascii=False)
        output.write(text)
        stream.flush()
        assert json.loads(data.getvalue().decode(encoding)) == ["größe …", "😀"]


def test_a_byte_of_a_name_stays_a_byte_beside_an_escape() -> None:
    data = io.BytesIO()
    with io.TextIOWrapper(data, encoding="ascii", errors="surrogateescape") as stream:
        OutputStream(lambda: stream).write("caf\udce9 …")
        stream.flush()
        assert data.getvalue() == b"caf\xe9 \\u2026"


# ---- a whole process

PROGRAM = """
import os, sys
from testbed.common.terminal import output_stream
output_stream.take_over()
number = os.open(os.devnull, os.O_RDONLY)
print("to output …", flush=True)
print("to errors …", file=sys.stderr, flush=True)
sys.stdout.write("x" * 100_000)
os._exit(number)
"""


def carry_out(redirected: str, program: str = PROGRAM, **variables: str) -> subprocess.CompletedProcess[bytes]:
    shell = f'exec "$0" -c "$1" {redirected}'
    return subprocess.run(
        ["bash", "-c", shell, sys.executable, program],
        cwd=ROOT,
        capture_output=True,
        timeout=120,
        env=os.environ | variables,
        check=False,
    )


@pytest.mark.parametrize("redirected", ["<&- >&- 2>&-", ">&-", "2>&-", ">/dev/full", "2>/dev/full", "> >(true)"])
def test_a_process_goes_on_and_no_file_gets_the_number_of_a_standard_stream(redirected: str) -> None:
    assert carry_out(redirected).returncode >= 3


def test_a_line_for_closed_errors_is_not_printed_to_the_output() -> None:
    found = carry_out("2>&-")
    assert b"errors" not in found.stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_process_prints_in_any_encoding(encoding: str) -> None:
    found = carry_out("", PYTHONIOENCODING=encoding)
    assert b"to output \\u2026\n" in found.stdout
    assert found.stderr == b"to errors \\u2026\n"


LOGGING = """
import os, sys
from testbed.common.terminal import output_stream
from testbed.processes.templates import child
output_stream.take_over()
child.log_to("/dev/full")
for _ in range(3):
    print("x" * 100_000, flush=True)
    print("x" * 100_000, file=sys.stderr, flush=True)
sys.stdout.flush()
os._exit(7)
"""


def test_a_log_on_a_full_disk_does_not_end_its_process() -> None:
    found = carry_out("", LOGGING)
    assert (found.returncode, found.stderr) == (7, b"")
