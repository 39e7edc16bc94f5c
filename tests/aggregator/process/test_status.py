"""The status file for the live view."""

from __future__ import annotations

import json
from pathlib import Path

from aggregator.process import status
from aggregator.process.evaluation import EvaluationQueue
from aggregator.strategies.eafl.eafl import EAFL
from testbed.common.clock import WallClock
from testbed.history import trace
from testbed.wire.ticket_ranges import first_ticket
from tests.aggregator.strategies.by_hand import ByHand


def test_tickets_of_cluster_heads_are_counted_with_the_others(tmp_path: Path) -> None:
    hand = ByHand(EAFL(clusters=1), (0.0,))
    hand.start(a=1)
    hand.update("a", 1.0)  # for the clustering; a becomes head and is sent the model
    [group] = hand.events(trace.Grouped)
    ticket = first_ticket(group.ticket_range) + 1
    sent = trace.Dispatched(t=0.0, device="a", ticket=ticket, version=0, steps=1)
    lost = trace.Lost(t=1.0, device="a", ticket=ticket, reason="it was given up")
    hand.engine.head_ledgers.enter("a", group.ticket_range, [sent, lost])
    path = tmp_path / "status.json"
    status.write(path, 1.0, WallClock.starting_now(), hand.engine, EvaluationQueue(1.0), {}, ["a"])
    tally = json.loads(path.read_text(encoding="utf-8"))["tally"]
    assert tally == {"dispatched": 3, "applied": 0, "rejected": 1, "lost": 1, "superseded": 0, "delivered": 0}
