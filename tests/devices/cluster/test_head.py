"""A cluster head and the messages of its members, over a real socket and with invented moments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from devices.cluster.head import Head
from devices.cluster.message_ends import SocketClusterLinks
from testbed.history import trace
from testbed.profile.schema import UpdateBound
from testbed.wire.codec import encode, largest_frame
from testbed.wire.error_feedback import outgoing
from testbed.wire.messages import Heartbeat, JoinCluster, Train, Update
from testbed.wire.sockets import Peer, wait_for_any
from testbed.wire.ticket_ranges import CLUSTER_JOBS
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import vector

SIZE = 2
PATIENCE = 120.0


class HeadWithMember:
    """A cluster of head a and member b; the test plays b."""

    def __init__(
        self,
        folder: Path,
        quorum: int,
        clip: float | None = None,
        compression: str = "none",
        carried: tuple[tuple[str, int], ...] = (),
    ) -> None:
        samples = (("a", 10, 0), ("b", 30, 0))
        group = JoinCluster(ticket_range=1, head="a", quorum=quorum, members=samples, carried=carried)
        self.given: list[Train] = []
        self.results: list[Update] = []
        self.links = SocketClusterLinks(folder, SIZE)
        members = self.links.open(group.ticket_range)
        self.head = Head(group, members, self.given.append, self._result, UpdateBound(clip=clip), compression)
        self.member = Peer(f"ipc://{folder}/head-1", "b", max_bytes=largest_frame(SIZE))

    def _result(self, update: Update, train: Train, moment: float) -> None:
        self.results.append(update)

    def close(self) -> None:
        self.member.close(linger=0)
        self.head.close()

    def send(self, message: Heartbeat | Update, now: float) -> None:
        """Let the head receive a message, with a clock that was read at ``now``."""
        self.member.send(encode(message), PATIENCE)
        wait_for_any(PATIENCE, self.links.sockets)
        self.head.listen(now, 0.0)

    def receive_model(self, ticket: int, version: int, moment: float, arrived: int = 0) -> None:
        train = Train(
            ticket=ticket,
            number=CLUSTER_JOBS,
            version=version,
            sent=moment,
            job=Job(steps=1),
            model=vector(0, 0),
            for_cluster=True,
            arrived=arrived,
        )
        self.head.begin(train, moment)

    @property
    def events(self) -> list[trace.HeadEvent]:
        return self.head.unreported

    def ticket_of(self, device: str) -> int:
        """Return the last ticket of a device."""
        sent = [event for event in self.events if isinstance(event, trace.Dispatched)]
        return next(event.ticket for event in reversed(sent) if event.device == device)

    def fates(self) -> list[tuple[str, str]]:
        sent = (trace.Dispatched, trace.Adopted, trace.Carried)
        return [(type(event).__name__, event.device) for event in self.events if not isinstance(event, sent)]


def update(device: str, ticket: int, due: float, delta: tuple[float, float] = (1, 1)) -> Update:
    return Update(
        device=device,
        ticket=ticket,
        version=0,
        delta=vector(*delta),
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
def cluster(tmp_path: Path) -> Iterator[HeadWithMember]:
    """A cluster whose head waits for one update and has sent a model to its members."""
    made = HeadWithMember(tmp_path, quorum=1)
    made.send(idle(), 0.0)
    made.receive_model(5, 0, 0.0)
    yield made
    made.close()


def test_a_heartbeat_does_not_overtake_an_update_even_if_the_clock_was_read_before_it(cluster: HeadWithMember) -> None:
    ticket = cluster.ticket_of("b")
    cluster.send(update("b", ticket, due=1.0), 0.96)
    cluster.send(idle(finished=ticket, trains=1), 0.999)  # sent at 1.0001, when the upload had ended
    assert cluster.fates() == []
    cluster.head.listen(1.01, 0.0)
    assert cluster.fates() == [("Arrived", "b")]
    assert [[merged[0] for merged in result.merged] for result in cluster.results] == [[ticket]]


def test_a_heartbeat_shows_an_upload_that_was_given_up(cluster: HeadWithMember) -> None:
    cluster.send(idle(finished=cluster.ticket_of("b"), trains=1), 1.0)
    assert cluster.fates() == [("Lost", "b")]


def test_each_of_more_updates_than_the_quorum_is_in_one_result(cluster: HeadWithMember) -> None:
    first, second = cluster.ticket_of("a"), cluster.ticket_of("b")
    cluster.head.take(update("a", first, due=1.0), 1.0)
    cluster.send(update("b", second, due=1.0), 1.0)
    cluster.receive_model(6, 1, 2.0)
    assert [[merged[0] for merged in result.merged] for result in cluster.results] == [[first], [second]]
    assert [(result.ticket, result.samples) for result in cluster.results] == [(5, 10), (6, 30)]


def test_only_the_updates_in_a_lost_result_are_lost(cluster: HeadWithMember) -> None:
    first = cluster.ticket_of("a")
    cluster.head.take(update("a", first, due=1.0), 1.0)
    cluster.send(update("b", cluster.ticket_of("b"), due=1.0), 1.0)
    cluster.head.lose(cluster.results[0], "it was given up", 1.5)
    [lost] = [event for event in cluster.events if isinstance(event, trace.Lost)]
    assert (lost.t, lost.device, lost.ticket, lost.reason) == (1.5, "a", first, "it was given up")


def test_an_update_that_arrived_before_a_result_and_is_not_in_it_is_in_the_next_one(tmp_path: Path) -> None:
    cluster = HeadWithMember(tmp_path, quorum=3)
    cluster.send(idle(), 0.0)
    cluster.receive_model(5, 0, 0.0)
    first, second = cluster.ticket_of("a"), cluster.ticket_of("b")
    cluster.head.take(update("a", first, due=1.0), 1.0)
    cluster.send(update("b", second, due=1.0), 1.0)
    assert not cluster.results
    cluster.head.regroup(JoinCluster(ticket_range=1, head="a", quorum=1, members=(("a", 10, 1), ("b", 30, 1))), 1.5)
    cluster.receive_model(6, 1, 2.0)
    assert [[merged[0] for merged in result.merged] for result in cluster.results] == [[first], [second]]
    cluster.close()


def test_a_head_bounds_the_updates_of_its_members(tmp_path: Path) -> None:
    cluster = HeadWithMember(tmp_path, quorum=1, clip=0.5)
    cluster.send(idle(), 0.0)
    cluster.receive_model(5, 0, 0.0)
    cluster.send(update("b", cluster.ticket_of("b"), due=1.0), 1.0)
    [result] = cluster.results
    assert float(np.linalg.norm(result.delta)) == pytest.approx(0.5)
    assert [event.clipped for event in cluster.events if isinstance(event, trace.Arrived)] == [pytest.approx(2**0.5)]
    cluster.close()


def test_a_head_reports_models_and_changes_of_members_in_the_order_in_which_its_engine_gets_them(
    cluster: HeadWithMember,
) -> None:
    """``verify`` repeats the calls of its engine: all of them must be in the trace."""
    cluster.send(idle(trains=1), 3.0)  # moves the engine to this moment, and causes no event
    cluster.receive_model(6, 1, 2.5)
    cluster.head.pause(3.5)
    group = JoinCluster(ticket_range=1, head="a", quorum=1, members=(("a", 10, 1),))
    cluster.head.regroup(group, 4.0)
    kinds = trace.Adopted | trace.Regrouped | trace.Paused
    assert [event for event in cluster.events if isinstance(event, kinds)] == [
        trace.Adopted(t=0.0, device="a", ticket=5, due=0.0, joined=["b", "a"]),
        trace.Adopted(t=3.0, device="a", ticket=6, due=2.5),
        trace.Paused(t=3.5, device="a", ticket_range=1),
        trace.Regrouped(t=4.0, device="a", ticket_range=1),
    ]
    assert isinstance(cluster.events[-1], trace.Lost)  # of the member that has gone


@pytest.mark.parametrize(("arrived", "second"), [(5, [0.0, 3.5]), (0, [3.0, 0.0])])
def test_a_head_compresses_its_results_and_keeps_what_it_did_not_send(
    tmp_path: Path, arrived: int, second: list[float]
) -> None:
    with contextlib.closing(HeadWithMember(tmp_path, quorum=1, compression="topk:0.5")) as cluster:
        cluster.send(idle(), 0.0)
        cluster.receive_model(5, 0, 0.0)
        cluster.head.take(update("a", cluster.ticket_of("a"), 1.0, delta=(5, 1)), 1.0)
        cluster.head.advance(1.0, 0.0)  # sends 5; the residual is (0, 1) if it arrives
        cluster.receive_model(6, 0, 2.0, arrived)
        cluster.head.take(update("a", cluster.ticket_of("a"), 3.0, delta=(3, 2.5)), 3.0)
        cluster.head.advance(3.0, 0.0)
    assert [result.delta.tolist() for result in cluster.results] == [[5.0, 0.0], second]
    assert [result.nbytes for result in cluster.results] == [8, 8]


def test_a_head_reads_the_compressed_update_of_a_member(cluster: HeadWithMember) -> None:
    sent = outgoing("topk:0.5", vector(5, 1), None)
    compressed = replace(update("b", cluster.ticket_of("b"), due=1.0), delta=sent.delta, payload=sent.payload)
    cluster.send(compressed, 1.0)
    assert [result.delta.tolist() for result in cluster.results] == [[5.0, 0.0]]
    assert [event.bytes for event in cluster.events if isinstance(event, trace.Arrived)] == [8]


def carrying(folder: Path, quorum: int = 2) -> HeadWithMember:
    """A cluster whose member b works on ticket 3 of a former head. The first model has not arrived."""
    cluster = HeadWithMember(folder, quorum, carried=(("b", 3),))
    cluster.send(Heartbeat(device="b", state="training", ticket=3), 0.0)
    return cluster


def test_a_member_continues_the_job_of_its_former_head_and_its_update_is_merged(tmp_path: Path) -> None:
    cluster = carrying(tmp_path)
    cluster.receive_model(5, 4, 0.0)
    assert [event.device for event in cluster.events if isinstance(event, trace.Dispatched)] == ["a"]
    assert [event for event in cluster.events if isinstance(event, trace.Carried)] == [
        trace.Carried(t=0.0, device="b", ticket=3)
    ]
    cluster.send(update("b", 3, due=1.0), 1.0)
    own = cluster.ticket_of("a")
    cluster.head.take(replace(update("a", own, due=1.0), version=4), 1.0)
    cluster.head.listen(1.01, 0.0)
    [result] = cluster.results
    assert [(ticket, staleness) for ticket, _, staleness in result.merged] == [(3, 4), (own, 0)]
    cluster.close()


def test_an_update_that_arrives_before_the_first_model_waits_for_it(tmp_path: Path) -> None:
    cluster = carrying(tmp_path, quorum=1)
    cluster.send(update("b", 3, due=1.0), 0.96)
    cluster.send(idle(finished=3), 1.1)
    assert (cluster.fates(), cluster.results) == ([], [])
    cluster.receive_model(5, 4, 2.0)
    cluster.head.listen(2.01, 0.0)
    assert cluster.fates() == [("Arrived", "b")]
    [arrived] = [event for event in cluster.events if isinstance(event, trace.Arrived)]
    assert (arrived.t, arrived.due, arrived.received, arrived.staleness) == (2.0, 1.0, 0.96, 4)
    assert [merged[0] for merged in cluster.results[0].merged] == [3]
    cluster.close()


@pytest.mark.parametrize("begun", [False, True])
def test_the_carried_ticket_of_a_member_that_leaves_is_lost_once(begun: bool, tmp_path: Path) -> None:
    cluster = carrying(tmp_path)
    if begun:
        cluster.receive_model(5, 4, 0.5)
    alone = JoinCluster(ticket_range=1, head="a", quorum=1, members=(("a", 10, 1),))
    for _ in range(2):
        cluster.head.regroup(alone, 1.0)
    [lost] = [event for event in cluster.events if isinstance(event, trace.Lost)]
    assert (lost.ticket, lost.device, lost.reason) == (3, "b", "it is no longer a member")
    cluster.close()


def test_a_head_that_is_paused_merges_nothing_more(cluster: HeadWithMember) -> None:
    cluster.head.pause(1.0)
    cluster.send(update("b", cluster.ticket_of("b"), due=1.0), 1.0)
    assert (cluster.fates(), cluster.results) == ([("Paused", "a"), ("Arrived", "b")], [])
