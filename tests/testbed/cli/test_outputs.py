"""Commands that only print end as other Unix programs do when their output is lost."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.live.runs import PROGRAM

COMMANDS = ["list strategies", "list tasks -v", "list keys --format json-schema", "--help", "--version"]


def carry_out(words: str, redirected: str) -> tuple[int, str]:
    shell = f"{sys.executable} {PROGRAM} {words} {redirected}\nexit ${{PIPESTATUS[0]}}"
    found = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=300, check=False)
    return found.returncode, found.stderr


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_without_a_reader_ends_quietly(words: str) -> None:
    assert carry_out(words, "| true") == (1, "")


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_whose_output_is_on_a_full_disk_says_so_in_one_line(words: str) -> None:
    code, errors = carry_out(words, ">/dev/full")
    assert (code, errors) == (1, "error: standard output cannot be written: No space left on device; free disk space\n")


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_with_closed_outputs_is_done(words: str) -> None:
    assert carry_out(words, ">&- 2>&-") == (0, "")


def test_an_error_is_not_lost_with_the_output() -> None:
    code, errors = carry_out("list schema nonsense", ">/dev/full")
    assert code == 2
    assert errors.startswith("error: list schema nonsense: there is no such file")
    assert errors.count("\n") == 1
