"""The findings of the command ``doctor``, and what ``--calibrate`` measured, as text."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from testbed.common.console import milliseconds, say
from testbed.doctor.benchmark import HostCalibration
from testbed.doctor.checks import HostFinding


def show(console: Console, findings: Sequence[HostFinding], calibrated: HostCalibration | None) -> None:
    table = Table(box=None)
    for column in ("", "what", "found", "what that means"):
        table.add_column(column)
    for finding in findings:
        mark = {True: "[green]ok[/green]", False: "[red]no[/red]", None: "[dim]—[/dim]"}[finding.ok]
        table.add_row(mark, finding.what, finding.found, finding.means)
    console.print(table)
    if calibrated is None:
        say(console, "not calibrated: run_testbed.py doctor --calibrate measures and stores how exact this host is")
        return
    late, p99 = milliseconds(calibrated.sleep_p50), milliseconds(calibrated.sleep_p99)
    steps = (calibrated.step_alone, calibrated.step_company, calibrated.step_slow)
    alone, loaded, slow = (milliseconds(seconds) for seconds in steps)
    say(console, f"calibrated {calibrated.measured}:")
    say(console, f"  a sleeping process wakes {late} late (p99 {p99})")
    say(console, f"  a step of 32 digits takes {alone} alone, {loaded} beside other processes (p90 {slow})")
    say(console, f"  loopback {calibrated.loopback / 1e6:.0f} MB/s, a fork {milliseconds(calibrated.fork)}")
