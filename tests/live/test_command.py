"""Runs with a user's own strategy, and errors of a user."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.live.runs import complete, write_profile

pytestmark = pytest.mark.live

STRATEGY = '''\
from dataclasses import dataclass

from aggregator.pacing import EveryUpdate
from testbed.common.parameters import param


@dataclass(kw_only=True)
class Halving(EveryUpdate):
    """Applies a fixed share of every delta."""

    share: float = param(0.5, "share of the delta that is applied", above=0, at_most=1)

    def weight(self, update, server):
        return self.share
'''


def test_a_users_own_strategy_beside_the_profile_works_and_json_is_one_document(tmp_path: Path) -> None:
    (tmp_path / "my_strategies.py").write_text(STRATEGY, encoding="utf-8")
    strategy = {"name": "my_strategies:Halving", "share": 0.25}
    outcome = complete(write_profile(tmp_path, strategy=strategy, stop={"versions": 5}), "--format", "json")
    assert outcome.code == 0
    printed = json.loads(outcome.stdout)
    assert printed == outcome.summary | {"run_folder": str(outcome.folder)}
    assert printed["strategy"] == "my_strategies:Halving"
    weights = [json.loads(line)["weights"] for line in _lines(outcome.folder, "aggregated")]
    assert weights == [[0.25]] * 5


def test_a_port_that_is_in_use_is_a_user_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        outcome = complete(write_profile(tmp_path, transport={"kind": "tcp", "port": port}), "--quiet")
    assert (outcome.code, outcome.stdout) == (2, "")
    [line] = outcome.stderr.splitlines()
    assert line.startswith(f"error: endpoint tcp://127.0.0.1:{port} cannot be opened")
    assert "transport.port" in line
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def _lines(folder: Path, kind: str) -> list[str]:
    lines = (folder / "trace.jsonl").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(f'{{"kind":"{kind}"')]
