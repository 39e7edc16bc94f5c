"""Options as dataclasses."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.cli.compare_command import CompareOptions
from testbed.cli.data_command import DataOptions
from testbed.cli.doctor_command import DoctorOptions
from testbed.cli.list_command import ListOptions
from testbed.cli.options import command, parsed
from testbed.cli.parsers.shared_options import number_or_word
from testbed.cli.plan_command import PlanOptions
from testbed.cli.report_command import ReportOptions
from testbed.cli.resume_command import ResumeOptions
from testbed.cli.run_command import RunOptions
from testbed.cli.sweep_command import SweepOptions
from testbed.cli.theory_command import TheoryOptions
from testbed.cli.trace_command import TraceCompareOptions, TraceExportOptions, TraceImportOptions, TraceShowOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    seed: int | None
    overrides: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    profile: Path
    inner: Inner


def test_a_field_that_is_a_dataclass_is_filled_from_the_same_namespace() -> None:
    namespace = argparse.Namespace(profile=Path("x"), seed=3, overrides=["a=1", "b=2"], other="ignored")
    assert parsed(Outer, namespace) == Outer(profile=Path("x"), inner=Inner(seed=3, overrides=("a=1", "b=2")))


def test_a_command_takes_its_options_as_a_dataclass() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    received: list[Inner] = []

    def carry_out(options: Inner) -> int:
        received.append(options)
        return 7

    namespace = parser.parse_args(["--seed", "4", "--set", "a=1"])
    assert command(Inner, carry_out)(namespace) == 7
    assert received == [Inner(seed=4, overrides=("a=1",))]


COMMANDS: dict[str, type[Any]] = {
    "run x.toml": RunOptions,
    "resume runs/x": ResumeOptions,
    "plan x.toml": PlanOptions,
    "sweep x.toml --out y": SweepOptions,
    "list keys": ListOptions,
    "data x.toml": DataOptions,
    "doctor": DoctorOptions,
    "report runs/x": ReportOptions,
    "compare runs/x": CompareOptions,
    "trace import csv x.csv": TraceImportOptions,
    "trace show runs/x": TraceShowOptions,
    "trace compare runs/x runs/y": TraceCompareOptions,
    "trace export runs/x --format csv --out y": TraceExportOptions,
    "theory runs/x": TheoryOptions,
}


def flat(options: Any) -> dict[str, Any]:
    """Return all fields by name, those of nested dataclasses included."""
    found: dict[str, Any] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        found |= flat(value) if is_dataclass(value) else {field.name: value}
    return found


@pytest.mark.parametrize("words", COMMANDS)
def test_the_dataclass_of_a_command_has_all_its_options(words: str) -> None:
    namespace = main.parser(words.split()).parse_args(words.split())
    options = vars(namespace).keys() - {"subcommand"}
    assert flat(parsed(COMMANDS[words], namespace)).keys() == options


@pytest.mark.parametrize(("text", "value"), [("4", 4.0), ("0.5", 0.5), ("auto", "auto"), ("inf", float("inf"))])
def test_a_dilation_is_a_number_or_a_word(text: str, value: float | str) -> None:
    assert number_or_word(text) == value
