"""A cluster head and what its members say, over a real socket; the moments are made up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devices.cluster.head import Head
from testbed.history import trace
from testbed.wire.codec import encode, largest_frame
from testbed.wire.messages import CLUSTER_JOBS, Heartbeat, Job, JoinCluster, Train, Update
from testbed.wire.sockets import Peer, wait_for_any
from tests.aggregator.strategies.by_hand import vector

SIZE = 2
PATIENCE = 10.0


class Cluster:
    """With head a and member b, which is played by hand."""

    def __init__(self, folder: Path, quorum: int) -> None:
        endpoint = f"ipc://{folder}/head"
        group = JoinCluster(ticket_range=1, head="a", quorum=quorum, members=(("a", 10, 0), ("b", 30, 0)))
        self.given: list[Train] = []
        self.results: list[Update] = []
        self.head = Head(group, endpoint, SIZE, self.given.append, lambda update, *_: self.results.append(update))
        self.member = Peer(endpoint, "b", max_bytes=largest_frame(SIZE))

    def close(self) -> None:
        self.member.close(linger=0)
        self.head.close()

    def say(self, message: Heartbeat | Update, now: float) -> None:
        """The head hears it, by a clock that was read at ``now``."""
        self.member.send(encode(message), PATIENCE)
        wait_for_any(PATIENCE, [self.head.hub])
        self.head.listen(now, 0.0)

    def lead(self, ticket: int, version: int, moment: float) -> None:
        train = Train(
            ticket=ticket,
            number=CLUSTER_JOBS,
            version=version,
            sent=moment,
            job=Job(steps=1),
            model=vector(0, 0),
            for_cluster=True,
        )
        self.head.receive_model(train, moment)

    @property
    def events(self) -> list[trace.HeadEvent]:
        return [trace.head_event(table) for table in self.head.ledger]

    def ticket_of(self, device: str) -> int:
        """That it was given last."""
        sent = [event for event in self.events if isinstance(event, trace.Dispatched)]
        return next(event.ticket for event in reversed(sent) if event.device == device)

    def fates(self) -> list[tuple[str, str]]:
        return [
            (type(event).__name__, event.device) for event in self.events if not isinstance(event, trace.Dispatched)
        ]


def update(device: str, ticket: int, due: float) -> Update:
    return Update(
        device=device,
        ticket=ticket,
        version=0,
        delta=vector(1, 1),
        samples=10,
        steps=1,
        started=0.1,
        finished=due,
        due=due,
        loss=None,
        trains=1,
    )


def idle(finished: int = 0, trains: int = 0) -> Heartbeat:
    return Heartbeat(device="b", state="idle", ticket=0, finished=finished, trains=trains)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Its head waits for one update, and has sent its members a model."""
    made = Cluster(tmp_path, quorum=1)
    made.say(idle(), 0.0)
    made.receive_model(5, 0, 0.0)
    yield made
    made.close()


def test_no_heartbeat_overtakes_an_update_although_the_clock_was_read_before(cluster: Cluster) -> None:
    ticket = cluster.ticket_of("b")
    cluster.say(update("b", ticket, due=1.0), 0.96)
    cluster.say(idle(finished=ticket, trains=1), 0.999)  # said at 1.0001, when the upload had ended
    assert cluster.fates() == []
    cluster.head.listen(1.01, 0.0)
    assert cluster.fates() == [("Arrived", "b")]
    assert [[merged[0] for merged in result.merged] for result in cluster.results] == [[ticket]]


def test_a_heartbeat_tells_of_an_upload_that_was_given_up(cluster: Cluster) -> None:
    cluster.say(idle(finished=cluster.ticket_of("b"), trains=1), 1.0)
    assert cluster.fates() == [("Lost", "b")]


def test_of_more_updates_than_are_wanted_each_is_in_one_result(cluster: Cluster) -> None:
    first, second = cluster.ticket_of("a"), cluster.ticket_of("b")
    cluster.head.take(update("a", first, due=1.0), 1.0)
    cluster.say(update("b", second, due=1.0), 1.0)
    cluster.receive_model(6, 1, 2.0)
    assert [[merged[0] for merged in result.merged] for result in cluster.results] == [[first], [second]]
    assert [(result.ticket, result.samples) for result in cluster.results] == [(5, 10), (6, 30)]


def test_what_went_into_a_result_that_was_lost_is_lost_and_nothing_else(cluster: Cluster) -> None:
    first = cluster.ticket_of("a")
    cluster.head.take(update("a", first, due=1.0), 1.0)
    cluster.say(update("b", cluster.ticket_of("b"), due=1.0), 1.0)
    cluster.head.lose(cluster.results[0], "it was given up", 1.5)
    [lost] = [event for event in cluster.events if isinstance(event, trace.Lost)]
    assert (lost.t, lost.device, lost.ticket, lost.reason) == (1.5, "a", first, "it was given up")


def test_an_update_that_had_come_before_a_result_and_is_not_in_it_is_in_the_next(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, quorum=3)
    cluster.say(idle(), 0.0)
    cluster.receive_model(5, 0, 0.0)
    first, second = cluster.ticket_of("a"), cluster.ticket_of("b")
    cluster.head.take(update("a", first, due=1.0), 1.0)
    cluster.say(update("b", second, due=1.0), 1.0)
    assert not cluster.results
    cluster.head.regroup(JoinCluster(ticket_range=1, head="a", quorum=1, members=(("a", 10, 1), ("b", 30, 1))), 1.5)
    cluster.receive_model(6, 1, 2.0)
    assert [[merged[0] for merged in result.merged] for result in cluster.results] == [[first], [second]]
    cluster.close()
