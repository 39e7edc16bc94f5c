"""``python -m tests.chaos sockets``: hostile TCP connections to a run, with bytes that no ZeroMQ peer sends.

Two runs of real devices, over plain and over encrypted TCP. Each must end by itself, with exact accounts, every device
in its place, and all refusals counted and shown.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import resource
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import tomli_w
import zmq

from testbed.history import trace
from tests.chaos import raw_bytes, verdict
from tests.chaos.adversary import members
from tests.chaos.raw_attack import Attack, Attacker
from tests.chaos.verdict import Line
from tests.live.runs import Outcome, Run, started

_AT_ONCE = 300
_HALF_OPEN_SHARE = 0.2
_WRONG_KEYS = 20
_WRONG_KEYS_SECONDS = 1.0
_TICK_SECONDS = 0.05
MOST_MEMORY = 128 << 20
"""Bytes by which the aggregator may grow. One endless message made it grow by 1.8 GB before there was a limit."""

Progress = Callable[[str], None]


@dataclass(kw_only=True)
class Hostility:
    """What was done to a run, and what was measured meanwhile."""

    attacks: list[Attack] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    """Unique memory of the aggregator."""
    files: int = 0
    """The most descriptors of the aggregator."""

    @property
    def connections(self) -> int:
        return sum(attack.opened.total() for attack in self.attacks)

    @property
    def kinds(self) -> Counter[str]:
        return sum((attack.opened for attack in self.attacks), Counter[str]())


def profile(*, encrypt: bool, devices: int, seconds: float, **changes: Any) -> dict[str, Any]:
    device = {"title": "a device in a hurry", "source": "none", "seconds_per_sample": 0.02}
    return {
        "name": "sockets",
        "seed": 1,
        "strategy": "fedasync",
        "task": {"name": "digits", "model": "small-cnn"},
        "training": {"steps": 1, "batch": 16, "lr": 0.05},
        "evaluation": {"every": 1.0},
        "presence": {"heartbeat": 0.5, "timeout": 30.0},
        "transport": {"kind": "tcp", "encrypt": encrypt},
        "checkpoint": {"seconds": 5.0},
        "devices": [{"profile": device, "link": "wifi", "name": "edge", "count": devices}],
        "stop": {"seconds": seconds},
    } | changes


def assault(run: Run, connections: int, seconds: float, seed: int, progress: Progress = lambda text: None) -> Hostility:
    """Attack a run that is going on until so many connections were answered, or for so long, or until it ends."""
    port, seen, until = run.listening_port(), Hostility(), time.monotonic() + seconds
    held = int(_HALF_OPEN_SHARE * connections)
    scripts = [
        (raw_bytes.drawn(random.Random(f"{seed} raw")), connections - held, _AT_ONCE),
        (itertools.islice(raw_bytes.half_open(), 3 * held), held, held),
    ]
    for script, wanted, at_once in scripts:
        left = max(0.0, until - time.monotonic())
        attacker = Attacker(port, script, connections=wanted, seconds=left, at_once=at_once)
        seen.attacks.append(attacker.done)
        attacker.start()
        try:
            while not attacker.is_over and run.process.poll() is None:
                _measure(run, seen)
                progress(f"{seen.connections:,} of {connections:,} connections, {seen.files} files")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.process.wait(_TICK_SECONDS)
        finally:
            attacker.end()
    with wrong_keys(port):
        time.sleep(_WRONG_KEYS_SECONDS)
    return seen


@contextlib.contextmanager
def wrong_keys(port: int) -> Iterator[None]:
    """Real CURVE peers whose keys are of no run. ZeroMQ connects again and again."""
    with zmq.Context() as context, contextlib.ExitStack() as stack:
        for _ in range(_WRONG_KEYS):
            dealer = stack.enter_context(context.socket(zmq.DEALER))
            dealer.setsockopt(zmq.LINGER, 0)
            dealer.curve_publickey, dealer.curve_secretkey = zmq.curve_keypair()
            dealer.curve_serverkey = zmq.curve_keypair()[0]
            dealer.connect(f"tcp://127.0.0.1:{port}")
        yield


def _measure(run: Run, seen: Hostility) -> None:
    with contextlib.suppress(psutil.Error, KeyError):
        aggregator = members(run)["aggregator"]
        seen.memory.append(aggregator.memory_full_info().uss)
        seen.files = max(seen.files, aggregator.num_fds())


# ---- a whole run


def carry_out(*, encrypt: bool, connections: int, devices: int, seconds: float, progress: Progress) -> list[Line]:
    """Run an experiment under attack to its own end, and judge it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with tempfile.TemporaryDirectory(prefix="sockets-") as folder:
        path = Path(folder) / "sockets.toml"
        path.write_text(tomli_w.dumps(profile(encrypt=encrypt, devices=devices, seconds=seconds)), encoding="utf-8")
        with started(path, "--no-admission", report=True, own_templates=True) as run:
            run.wait_until_traced("arrived", devices)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # for our own connections
            try:
                seen = assault(run, connections, seconds, 1, progress)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            outcome = run.finish()
        return [*lines(outcome, seen, devices, connections, encrypt=encrypt)]


def lines(outcome: Outcome, seen: Hostility, devices: int, connections: int, *, encrypt: bool) -> Iterator[Line]:
    """What must hold after a run under attack that has ended by itself."""
    how, summary = "encrypted" if encrypt else "plain", outcome.summary
    yield Line(
        what=f"{how}: the run ends by itself",
        measured=f"exit code {outcome.code}; {summary['stopped']}",
        bound="0",
        holds=outcome.code == 0,
    )
    yield Line(
        what=f"{how}: hostile connections",
        measured=f"{seen.connections:,} in {sum(attack.seconds for attack in seen.attacks):.0f} s, at most"
        f" {max(attack.most_at_once for attack in seen.attacks):,} at once;"
        f" {sum(attack.unanswered for attack in seen.attacks):,} others were not accepted",
        bound=f"≥ {connections:,}",
        holds=seen.connections >= connections,
    )
    yield from (Line(what=f"{how}: {line.what}", **_rest(line)) for line in verdict.accounts(outcome))
    yield places(outcome, devices, how)
    yield counted(outcome, seen, how)
    grown = max(seen.memory) - seen.memory[0]
    yield Line(
        what=f"{how}: unique memory of the aggregator",
        measured=f"{grown / (1 << 20):+.0f} MiB at most, with {seen.files} descriptors at most",
        bound=f"≤ +{MOST_MEMORY >> 20} MiB",
        holds=grown <= MOST_MEMORY,
    )


def _rest(line: Line) -> dict[str, Any]:
    return {"measured": line.measured, "bound": line.bound, "holds": line.holds}


def places(outcome: Outcome, devices: int, how: str) -> Line:
    """Every device joined once and never left."""
    joined = Counter(event.device for event in outcome.of_kind(trace.Joined))
    left = [f"{event.device}: {event.reason}" for event in outcome.of_kind(trace.Left)]
    kept = sum(count == 1 for count in joined.values())
    return Line(
        what=f"{how}: devices that kept their place",
        measured="; ".join([f"{kept} of {len(joined)}", *left]),
        bound=f"{devices}",
        holds=kept == devices == len(joined) and not left,
    )


def _yes(shown: bool) -> str:
    return "shown" if shown else "NOT shown"


def counted(outcome: Outcome, seen: Hostility, how: str) -> Line:
    """Every hostile connection was refused, counted, and shown on the terminal and in the report."""
    refused = int(outcome.summary["refused"])
    on_terminal = f"refused: {refused} messages and connections" in outcome.stdout
    page = outcome.folder / "report.html"
    text = re.sub(r"\s", "", page.read_text(encoding="utf-8")) if page.exists() else ""
    in_report = f"{refused}messagesandconnections" in text
    shown = f"on the terminal: {_yes(on_terminal)}, in the report: {_yes(in_report)}"
    return Line(
        what=f"{how}: refusals counted",
        measured=f"{refused:,}; {shown}",
        bound=f"≥ {seen.connections:,}, shown",
        holds=refused >= seen.connections and on_terminal and in_report,
    )
