"""The file that shows which call the strategy is in, and the end of a call that is given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.process import strategy_call
from aggregator.process.strategy_call import CallFile, StrategyCall
from aggregator.strategy import Decision, Server
from testbed.common.errors import RunFailed
from testbed.history import trace
from testbed.wire.messages import Update
from tests.aggregator.engine.test_engine import Scripted
from tests.aggregator.process.test_main import World, folder, of, prepare, time
from tests.devices.parts import Time

__all__ = ["folder", "time"]  # fixtures


def test_a_reader_sees_the_call_while_it_lasts(tmp_path: Path) -> None:
    path = tmp_path / "call"
    assert strategy_call.read(path) is None
    file = CallFile(path)
    assert strategy_call.read(path) is None
    file.note("start, version 0")
    assert (strategy_call.read(path), file.in_call) == (StrategyCall(1, "start, version 0"), True)
    file.note("")
    assert (strategy_call.read(path), file.in_call) == (None, False)
    file.note("leave of ö")
    assert strategy_call.read(path) == StrategyCall(2, "leave of ö")


def test_a_text_that_is_too_long_is_cut_off(tmp_path: Path) -> None:
    file = CallFile(tmp_path / "call")
    file.note("x" * 5000)
    found = strategy_call.read(tmp_path / "call")
    assert found is not None
    assert 100 < len(found.event) < 512


def test_an_incomplete_file_shows_no_call(tmp_path: Path) -> None:
    (tmp_path / "call").write_bytes(b"\x01")
    assert strategy_call.read(tmp_path / "call") is None


def test_a_call_that_is_given_up_fails_the_run_and_keeps_the_trace(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[StrategyCall | None] = []

    class Endless(Scripted):
        def on_update(self, update: Update, server: Server) -> Decision:
            calls.append(strategy_call.read(folder / "strategy_call"))
            try:
                process.give_up()  # as the handler of the signal does
            except Exception:  # noqa: BLE001  a strategy that does this must be interrupted all the same
                calls.append(None)
            return Decision()

    world = World(time)
    world.on_train = lambda device, train: world.update(device, train, at=0.5, due=0.5)
    process = prepare(world, folder, monkeypatch, strategy=Endless())
    process.give_up()  # in no call: nothing happens
    with pytest.raises(
        RunFailed, match=r"in on_update: Endless has not returned since 0\.50\d s of the run \(update of"
    ):
        process.run()
    events = list(trace.read(folder / "trace.jsonl"))
    assert len(of(trace.Arrived, events)) == 1
    assert [call.event for call in calls if call is not None] == [f"update of {events[-1].device}, version 0"]
    assert strategy_call.read(folder / "strategy_call") is None
    assert (folder / "checkpoints" / "final.safetensors").is_file()
