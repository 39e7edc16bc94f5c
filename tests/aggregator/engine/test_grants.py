"""Requests and grants in the engine: waiting, resending, and decisions that are not allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from aggregator.engine.failures import BadDecision, Stalled
from aggregator.engine.forecast import CellForecast, NoForecast
from aggregator.strategies.asafl.grant_orders import GrantRates
from aggregator.strategy import Decision, Server, Strategy
from testbed.history import trace
from testbed.profile.radio import Cell
from testbed.profile.schema import Direction
from testbed.wire.messages import Update
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import ByHand, check_conservation, vector
from tests.testbed.examples import device_spec


def plan(*devices: str) -> GrantRates:
    count = len(devices)
    return GrantRates(
        devices=devices,
        rates=(8.0,) * count,
        shares=(1 / count,) * count,
        remaining=(0.0,) * count,
        seconds=1.0,
        queue=0.0,
        spent=0.0,
        budget=1.0,
    )


@dataclass(kw_only=True)
class OnRequest(Strategy):
    """Starts all devices, and grants a rate at a request or at once, as the test sets it."""

    grants: ClassVar[bool] = True
    at_once: tuple[str, ...] = ()
    at_request: bool = True

    def on_start(self, server: Server) -> Decision:
        train = dict.fromkeys(server.devices, server.job)
        return Decision(train=train, orders=(plan(*self.at_once),) if self.at_once else ())

    def on_ask(self, device: str, server: Server) -> Decision:
        return Decision(orders=(plan(device),) if self.at_request else ())

    def on_join(self, device: str, server: Server) -> Decision:
        return Decision(train={device: server.job})

    def on_leave(self, device: str, server: Server) -> Decision:
        return Decision()

    def on_ready(self, device: str, server: Server) -> Decision:
        return Decision(train={device: server.job})

    def on_update(self, update: Update, server: Server) -> Decision:
        return Decision(rejected={update.ticket: "seen"}, train={update.device: server.job})


def started(**traits: object) -> ByHand:
    hand = ByHand(OnRequest(**traits))  # type: ignore[arg-type]
    hand.start(a=1, b=1)
    return hand


def test_a_request_is_traced_and_answered() -> None:
    hand = started()
    hand.now = 2.0
    hand.ask("a")
    [asked], [granted] = hand.events(trace.Asked), hand.events(trace.Granted)
    assert (asked.device, asked.t, granted.device, granted.rate, granted.share) == ("a", 2.0, "a", 8.0, 1.0)
    [(device, grant)] = hand.granted
    assert (device, grant.ticket, grant.sent) == ("a", hand.train("a").ticket, 2.0)


def test_a_device_that_waits_for_a_grant_is_not_at_work() -> None:
    hand = started(at_request=False)
    hand.ask("a")
    with pytest.raises(Stalled, match="OnRequest stalled after request of b"):
        hand.ask("b")


def test_an_update_without_a_grant_is_rejected_and_its_device_starts_again() -> None:
    hand = started()
    ticket = hand.train("a").ticket
    hand.update("a", 1.0)
    [rejected] = hand.events(trace.Rejected)
    assert (rejected.ticket, rejected.reason) == (ticket, "it was sent without a grant")
    assert hand.train("a").ticket > ticket
    check_conservation(hand.engine)


def test_a_request_for_an_old_ticket_or_a_second_one_is_ignored() -> None:
    hand = started()
    old = hand.train("a")
    hand.ask("a")
    hand.ask("a")
    hand.update("a", 1.0)
    hand.ask("a", train=old)
    hand.leave("b")
    hand.ask("b")
    assert [event.device for event in hand.events(trace.Ignored)] == ["a", "a", "b"]
    assert len(hand.events(trace.Asked)) == 1


def test_a_request_under_a_strategy_without_grants_is_ignored() -> None:
    class Plain(OnRequest):
        grants: ClassVar[bool] = False

    hand = ByHand(Plain())
    hand.start(a=1)
    hand.ask("a")
    assert hand.events(trace.Ignored)
    assert not hand.train("a").grant


@pytest.mark.parametrize("who", [("a", "a"), ("unknown",)])
def test_a_grant_to_a_device_that_waits_for_none_is_a_bad_decision(who: tuple[str, ...]) -> None:
    with pytest.raises(BadDecision, match=f"granted a rate to {who[0]}, which does not wait for one"):
        started(at_once=who)


def test_a_grant_that_does_not_arrive_is_sent_again_as_it_was() -> None:
    hand = started(at_once=("a",))
    hand.now = 9.0
    for _ in range(6):
        hand.heartbeat("a", ticket=hand.train("a").ticket, trains=1, state="waiting")
    [first, second] = hand.granted
    assert first == second
    assert len(hand.events(trace.Granted)) == 1


def test_a_grant_is_not_sent_again_while_the_device_uploads() -> None:
    hand = started(at_once=("a",))
    for state in ("waiting", "uploading") * 5:
        hand.heartbeat("a", ticket=hand.train("a").ticket, trains=1, state=state)
    assert len(hand.granted) == 1


def test_a_device_that_cannot_be_reached_for_its_grant_leaves() -> None:
    hand = started()
    hand.unreachable.add("a")
    hand.ask("a")
    assert [event.device for event in hand.events(trace.Left)] == ["a"]


# ---- how long a device will still compute


def test_the_remaining_seconds_count_from_the_dispatch_and_are_zero_only_after_a_request() -> None:
    hand = started()  # jobs take 1 s
    hand.engine.now = 0.25
    assert hand.engine.remaining("a") == 0.75
    hand.engine.now = 5.0
    assert hand.engine.remaining("a") == pytest.approx(1e-6)
    hand.now = 5.0
    hand.ask("a")
    assert hand.engine.remaining("a") == 0.0


def test_the_remaining_seconds_can_be_estimated_from_heartbeats() -> None:
    hand = started()
    hand.now = 3.0
    hand.heartbeat("a", ticket=hand.train("a").ticket, trains=1, state="training", progress=0.25)
    hand.engine.now = 3.5
    assert hand.engine.remaining("a", by_heartbeats=True) == 0.25
    assert hand.engine.remaining("b", by_heartbeats=True) == pytest.approx(1e-6)
    hand.now = 6.0
    hand.heartbeat("a", ticket=hand.train("a").ticket, trains=1, state="suspended", progress=0.5)
    assert (
        hand.engine.remaining("a", by_heartbeats=True) == 0.5
    )  # it is suspended; counted from the dispatch, it would be finished


def test_the_remaining_seconds_of_a_resent_job_count_from_the_resend() -> None:
    hand = started()
    hand.now = 3.0
    hand.heartbeat("a", trains=10**6)
    assert hand.events(trace.Resent)
    assert hand.engine.remaining("a") == 1.0


def test_an_idle_device_has_no_remaining_seconds() -> None:
    hand = ByHand(OnRequest())
    hand.join("b")
    with pytest.raises(BadDecision, match="remaining seconds of b, which does not compute"):
        hand.engine.remaining("b")


# ---- the cell


def in_cell(seconds_per_sample: float | None = 0.5, seed: int = 0, compression: str = "none") -> CellForecast:
    spec = device_spec("a")
    near = {
        "name": "a",
        "distance": 250.0,
        "down": Direction(delay=0.25, mbit=8e-6),
        "index": 3,
        "seconds_per_sample": seconds_per_sample,
        "compress_updates": compression,
    }
    fleet = {"a": type(spec)(**{name: near.get(name, getattr(spec, name)) for name in spec.__slots__})}
    return CellForecast(Cell(), seed, fleet, {"a": 10}, 4)


def test_the_forecast_of_a_job_is_its_download_and_its_computing() -> None:
    # 0.25 s of delay, 4 bytes at 8 bit/s, two steps of 10 samples of 0.5 s
    assert in_cell().seconds("a", Job(steps=2)) == 0.25 + 4.0 + 10.0


def test_after_an_update_the_forecast_uses_its_seconds_per_step() -> None:
    for forecast in (in_cell(), in_cell(seconds_per_sample=None)):
        forecast.observe(
            Update(
                device="a",
                ticket=1,
                version=0,
                delta=vector(0.0),
                samples=10,
                steps=4,
                started=1.0,
                finished=3.0,
                due=3.0,
                loss=None,
            )
        )
        assert forecast.seconds("a", Job(steps=2)) == 4.25 + 1.0


def test_fading_depends_only_on_seed_device_and_round() -> None:
    snrs = [in_cell().snr("a", version) for version in range(2000)]
    assert snrs[7] == in_cell().snr("a", 7) != in_cell(seed=1).snr("a", 7)
    assert len(set(snrs)) == len(snrs)
    assert sum(snrs) / len(snrs) == pytest.approx(160.0, rel=0.1)  # at 250 m: four times the 40 of the edge


@pytest.mark.parametrize(("compression", "bits"), [("none", 32_000), ("int8", 8 * 1004), ("topk:0.01", 8 * 80)])
def test_the_bits_of_an_upload_are_those_of_the_compressed_update(compression: str, bits: int) -> None:
    assert in_cell(compression=compression).upload_bits("a", 1000) == bits


def test_without_a_cell_there_is_no_forecast() -> None:
    for question in (
        lambda: NoForecast().snr("a", 0),
        lambda: NoForecast().seconds("a", Job()),
        lambda: NoForecast().upload_bits("a", 1),
    ):
        with pytest.raises(LookupError, match="a is in no radio cell"):
            question()
