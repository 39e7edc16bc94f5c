"""``run_testbed.py doctor``: what this host can and cannot do for a run."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.cli import options
from testbed.common.console import TerminalConsole
from testbed.common.json_text import json_text
from testbed.common.terminal import plain_text
from testbed.doctor import benchmark, checks, findings_text


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    calibrate: bool
    format: str


def examine(given: DoctorOptions) -> int:
    """Return 1 if this host lacks something that a run needs."""
    if given.calibrate:
        # no spinner: its thread would run beside what is forked and measured
        plain_text.show_on_errors("measuring this host, about 10 seconds …")
        benchmark.measure()
    findings = list(checks.examine())
    calibrated = benchmark.stored()
    if given.format == "json":
        rows = [{"what": f.what, "ok": f.ok, "found": f.found, "means": f.means} for f in findings]
        plain_text.show_json(json_text({"findings": rows, "calibration": calibrated}))
    else:
        findings_text.show(TerminalConsole(), findings, calibrated)
    return 0 if all(finding.ok is not False for finding in findings) else 1


COMMAND = options.command(DoctorOptions, examine)
