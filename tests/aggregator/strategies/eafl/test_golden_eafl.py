"""EAFL: GDC, then SAA (4) in each cluster and DSA (5) among them (Zhou et al. 2024), recomputed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from aggregator.engine.engine import Engine
from aggregator.strategies.eafl.eafl import EAFL
from aggregator.strategies.eafl.head_strategy import HeadStrategy
from aggregator.strategy import DeviceInfo, Merged
from devices.cluster.head_engine import ClusterEngine
from testbed.history import trace
from testbed.wire.messages import Heartbeat, JoinCluster, Train, Update, Vector
from testbed.wire.ticket_ranges import CLUSTER_JOBS, first_ticket, range_of
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import ByHand, check_conservation, vector

RIGHT, UP = (8.0, 0.0), (0.0, 8.0)
RANGE = 3


def clustered(**parameters: object) -> ByHand:
    """Return a run with clusters: a and b move to the right, c and d up; d has the most samples."""
    hand = ByHand(EAFL(**{"clusters": 2, "every": 2, "phi": 0.5} | parameters), (1.0, 1.0))  # type: ignore[arg-type]
    hand.start(a=10, b=30, c=20, d=60)
    for device, delta in (("a", RIGHT), ("c", UP), ("b", RIGHT), ("d", UP)):
        hand.update(device, *delta)
    return hand


def heads(hand: ByHand) -> dict[int, str]:
    return {event.cluster: event.head for event in hand.events(trace.Grouped)}


# ---- the aggregator


def test_gradients_are_for_the_clustering_only_and_heads_are_sent_the_model() -> None:
    hand = clustered()
    [found] = hand.events(trace.Clustered)
    assert found.clusters == [["a", "b"], ["c", "d"]]
    assert (hand.engine.version, hand.model) == (0, [1.0, 1.0])
    assert {event.reason for event in hand.events(trace.Rejected)} == {"it was for the clustering only"}
    assert {name for name, _ in hand.groups} == {"a", "b", "c", "d"}
    for name, group in hand.groups:
        assert bool(group.members) == (name == group.head)  # only the head gets the list of members
        assert group.quorum == 1  # ⌈0.5·2⌉
    assert set(hand.engine.busy) == set(heads(hand).values())
    for head in heads(hand).values():
        train = hand.train(head)
        assert train.for_cluster
        assert train.number == CLUSTER_JOBS


def test_two_iterations_of_dsa_and_then_a_new_clustering() -> None:
    hand = clustered()
    first, second = heads(hand).values()
    hand.update(first, 4.0, 0.0)
    assert hand.engine.version == 0  # heads wait for each other
    hand.update(second, 0.0, 3.0)
    # |D_1| = 40 and |D_2| = 80 of 120: w = (1, 1) + (4, 0)/3 + (0, 3)·2/3
    assert hand.model == pytest.approx([1 + 4 / 3, 3.0])
    assert hand.train(first).for_cluster
    assert hand.train(first).number == CLUSTER_JOBS + 1
    hand.dispatched()
    hand.update(second, 0.0, 3.0)
    hand.update(first, 0.0, 0.0)
    assert (hand.model[1], hand.engine.version) == (5.0, 2)
    assert [name for name, _ in hand.signals] == ["a", "b", "c", "d"]  # R = 2
    assert len(hand.dispatched()) == 4  # the same signals: no model was sent
    check_conservation(hand.engine)


def test_with_fresh_gradients_all_devices_train_for_every_clustering() -> None:
    hand = clustered(fresh=True, every=1)
    first, second = heads(hand).values()
    hand.update(first, 4.0, 0.0)
    hand.dispatched()
    hand.update(second, 0.0, 3.0)
    assert (hand.dispatched(), hand.signals) == (["a", "b", "c", "d"], [])
    assert {(hand.train(name).for_cluster, hand.train(name).version) for name in "abcd"} == {(False, 1)}
    # new tickets of the aggregator are larger than all tickets of heads
    assert range_of(hand.train("a").ticket) > max(group.ticket_range for _, group in hand.groups)
    for device, delta in (("a", UP), ("c", UP), ("b", RIGHT), ("d", RIGHT)):
        hand.update(device, *delta)
    assert [event.clusters for event in hand.events(trace.Clustered)][1] == [["a", "c"], ["b", "d"]]
    assert {event.staleness for event in hand.events(trace.Arrived)} == {0}
    assert all(not group.carried for _, group in hand.groups)
    check_conservation(hand.engine)


def report(hand: ByHand, event: trace.Grouped, *members: str) -> dict[str, int]:
    """Let the head of a cluster report a job for each of these members. Return their tickets."""
    tickets = {name: first_ticket(event.ticket_range) + number for number, name in enumerate(members, 1)}
    sent = [
        trace.Dispatched(t=hand.now, device=name, ticket=ticket, version=0, steps=1) for name, ticket in tickets.items()
    ]
    hand.engine.head_ledgers.enter(event.head, event.ticket_range, sent)
    return tickets


def test_devices_send_the_gradients_that_they_have_and_carry_their_jobs_to_their_new_heads() -> None:
    hand = clustered(every=1)
    first, second = hand.events(trace.Grouped)
    one, two = report(hand, first, "a", "b"), report(hand, second, "c", "d")
    # the results contain a and d, so b and c are in the middle of a job, or their updates wait at their heads
    for event, used in ((first, one["a"]), (second, two["d"])):
        hand.engine.update(result(hand.train(event.head).ticket, event.head, (2.0, 0.0), used), 1.0)
    assert (hand.engine.version, hand.engine.head_ledgers.in_flight) == (1, 2)
    hand.now = 1.5
    # all gradients are those of version 0: those of b and c, and of a and d, now point the same way
    for device, delta in (("a", UP), ("b", RIGHT), ("c", RIGHT), ("d", UP)):
        hand.update(device, *delta, version=0)
    assert [event.clusters for event in hand.events(trace.Clustered)][1] == [["a", "d"], ["b", "c"]]
    third, fourth = hand.events(trace.Grouped)[2:]
    groups = dict(hand.groups[4:])
    assert groups[fourth.head].carried == (("b", one["b"]), ("c", two["c"]))
    [other] = {"b", "c"} - {fourth.head}
    assert groups[other].carried == ((other, (one | two)[other]),)
    assert groups["a"].carried == groups["d"].carried == ()
    assert {group.sent for group in groups.values()} == {1.5}
    assert not hand.events(trace.Superseded)
    # the carried tickets end in the result of the new head
    hand.now = 2.0
    for event, merged in ((third, ()), (fourth, (one["b"], two["c"]))):
        hand.engine.update(result(hand.train(event.head).ticket, event.head, (0.0, 1.0), *merged, version=1), 2.0)
    assert hand.events(trace.Merged)[-1].tickets == [one["b"], two["c"]]
    assert hand.engine.head_ledgers.in_flight == 0
    check_conservation(hand.engine)


def result(ticket: int, head: str, delta: tuple[float, float], *merged: int, version: int = 0) -> Update:
    return Update(
        device=head,
        ticket=ticket,
        version=version,
        delta=vector(*delta),
        samples=1,
        steps=1,
        started=0,
        finished=0,
        due=0,
        loss=None,
        merged=tuple((number, 1.0, 0) for number in merged),
    )


def test_a_device_without_a_gradient_goes_into_the_smallest_cluster_and_if_all_have_none_they_train() -> None:
    hand = clustered(every=1)
    for head in heads(hand).values():
        hand.update(head, 1.0, 1.0)
    for device, delta in (("a", RIGHT), ("b", RIGHT), ("c", UP)):
        hand.update(device, *delta)
    hand.join("e", 5)  # it has computed nothing: nobody waits for it
    hand.give_up("d")
    found = hand.events(trace.Clustered)[-1]
    assert found.clusters == [["a", "b", "e"], ["c", "d"]]
    for head in heads(hand).values():
        hand.update(head, 1.0, 1.0)
    hand.dispatched()
    for device in "abcde":
        hand.give_up(device)
    assert hand.dispatched() == ["a", "b", "c", "d", "e"]
    assert {hand.train(device).version for device in "abcde"} == {2}
    assert len(hand.signals) == 4 + 5


def test_a_gradient_of_a_newer_version_than_the_signal_is_refused() -> None:
    hand = clustered(every=1)
    for head in heads(hand).values():
        hand.update(head, 1.0, 1.0)
    hand.update("a", *RIGHT, version=2)
    assert hand.events(trace.Rejected)[-1].reason == "it claims version 2, but its ticket is for 1"


def test_without_gdc_the_clusters_stay() -> None:
    hand = clustered(gdc=False)
    for _ in range(5):
        for head in heads(hand).values():
            hand.update(head, 1.0, 1.0)
    assert hand.engine.version == 5
    assert len(hand.events(trace.Clustered)) == 1


def test_without_dsa_each_head_gets_the_next_model_at_once() -> None:
    hand = clustered(dsa=False, every=100)
    first, second = heads(hand).values()
    hand.update(first, 3.0, 0.0)
    assert hand.model == [2.0, 1.0]  # 40/120
    assert hand.train(first).version == 1
    hand.update(second, 0.0, 3.0)
    assert hand.model == [2.0, 3.0]
    assert [event.staleness for event in hand.events(trace.Aggregated)] == [[0], [1]]


def test_heads_learn_whether_saa_is_used() -> None:
    assert {group.damped for _, group in clustered().groups} == {True}
    assert {group.damped for _, group in clustered(saa=False).groups} == {False}


def test_a_head_that_leaves_is_replaced_at_once_and_a_late_one_after_the_patience() -> None:
    hand = clustered(patience=7.0)
    first, second = heads(hand).values()
    others = {"a": "b", "b": "a", "c": "d", "d": "c"}
    hand.leave(first)
    assert heads(hand)[0] == others[first]
    assert hand.train(others[first]).for_cluster
    hand.wake()
    assert hand.now == 7.0
    assert heads(hand) == {0: others[first], 1: others[second]}  # the first cluster has no other member
    assert hand.events(trace.Superseded)[-1].device == second
    hand.update(others[first], 3.0, 0.0)
    hand.update(others[second], 0.0, 3.0)
    samples = {"a": 10, "b": 30}[others[first]]
    assert hand.model == pytest.approx([1 + 3 * samples / (samples + 80), 1 + 3 * 80 / (samples + 80)])
    check_conservation(hand.engine)


def test_a_cluster_has_twice_as_long_after_each_late_head() -> None:
    hand = clustered(patience=4.0)
    hand.wake()
    assert hand.now == 4.0
    hand.wake()
    assert hand.now == 12.0
    hand.wake()
    assert hand.now == 28.0
    for head in list(heads(hand).values()):
        hand.update(head, 1.0, 0.0)
    hand.wake()
    assert hand.now == 32.0  # they have answered: the next deadline is 4 s again


def test_a_device_that_joins_goes_where_it_was_or_into_the_smallest_cluster() -> None:
    hand = clustered()
    member = ({"c", "d"} - {heads(hand)[1]}).pop()
    hand.leave(member)
    assert hand.events(trace.Grouped)[-1].members == [heads(hand)[1]]
    hand.join("e", 5)
    assert hand.events(trace.Grouped)[-1].cluster == 1
    hand.join(member, 60)
    assert (hand.events(trace.Grouped)[-1].cluster, member in hand.events(trace.Grouped)[-1].members) == (1, True)
    ranges = {event.ticket_range for event in hand.events(trace.Grouped) if event.cluster == 1}
    assert len(ranges) == 1  # the head is the same: the cluster does not start over


def test_a_clustering_does_not_wait_for_ever_for_a_suspended_device() -> None:
    hand = ByHand(EAFL(clusters=2, patience=5.0), (0.0, 0.0))
    hand.start(a=1, b=1, c=1)
    hand.update("a", *RIGHT)
    hand.update("b", *UP)
    hand.wake()
    [found] = hand.events(trace.Clustered)
    assert (hand.now, found.clusters) == (5.0, [["a", "c"], ["b"]])  # c has sent nothing
    grouped = hand.events(trace.Grouped)
    assert sorted(name for event in grouped for name in event.members) == ["a", "b", "c"]
    assert [event.device for event in hand.events(trace.Superseded)] == ["c"]


def test_a_clustering_waits_twice_as_long_while_gradients_are_fewer_than_clusters() -> None:
    hand = ByHand(EAFL(clusters=2, patience=5.0), (0.0, 0.0))
    hand.start(a=1, b=1, c=1, d=1)
    hand.wake()
    assert (hand.now, hand.engine.wake_at) == (5.0, 15.0)
    hand.update("a", *RIGHT)
    hand.wake()
    assert (hand.now, hand.engine.wake_at, hand.events(trace.Clustered)) == (15.0, 35.0, [])
    hand.update("c", *UP)
    assert not hand.events(trace.Clustered)  # others may still arrive
    hand.update("b", *RIGHT)
    hand.wake()
    [found] = hand.events(trace.Clustered)
    assert (hand.now, found.clusters) == (35.0, [["a", "b"], ["c", "d"]])


def test_a_clustering_of_fewer_devices_than_clusters_waits_for_all_of_them() -> None:
    hand = ByHand(EAFL(clusters=3, patience=5.0), (0.0, 0.0))
    hand.start(a=1, b=1, c=1)
    hand.update("a", *RIGHT)
    hand.leave("c")
    hand.wake()
    assert not hand.events(trace.Clustered)
    hand.update("b", *UP)
    assert [event.clusters for event in hand.events(trace.Clustered)] == [[["a"], ["b"]]]


@pytest.mark.parametrize("fate", ["invalid", "for an unknown ticket"])
def test_the_tickets_of_a_result_that_is_not_used_end_at_once(fate: str) -> None:
    hand = clustered()
    head, ticket_range = next((event.head, event.ticket_range) for event in hand.events(trace.Grouped))
    ticket = first_ticket(ticket_range) + 1
    sent = trace.Dispatched(t=0.0, device=head, ticket=ticket, version=0, steps=1)
    hand.engine.head_ledgers.enter(head, ticket_range, [sent])
    for_cluster = hand.train(head).ticket
    update = Update(
        device=head,
        ticket=for_cluster if fate == "invalid" else for_cluster + 10,
        version=0,
        delta=vector(np.nan, 0.0),
        samples=1,
        steps=1,
        started=0,
        finished=0,
        due=0,
        loss=None,
        merged=((ticket, 1.0, 0),),
    )
    hand.engine.update(update, 1.0)
    [gone] = hand.events(trace.Lost)
    assert (gone.ticket, gone.device, gone.reason) == (ticket, head, "the result of its head was not used")
    assert hand.engine.head_ledgers.in_flight == 0


def test_purity_is_recorded_if_the_true_groups_are_known() -> None:
    events: list[trace.Event] = []
    engine = Engine(
        EAFL(clusters=1),
        vector(0.0),
        job=Job(),
        random=np.random.default_rng(0),
        send=lambda *_: None,
        record=events.append,
        truth=lambda: {"a": (1,), "b": (1,), "c": (2,)},
    )
    for name in "abc":
        engine.join(DeviceInfo(name=name, samples=1), 0.0)
    engine.start(0.0)
    for ticket, name in enumerate("abc", first_ticket(1) + 1):
        engine.update(
            Update(
                device=name,
                ticket=ticket,
                version=0,
                delta=vector(1.0),
                samples=1,
                steps=1,
                started=0,
                finished=0,
                due=0,
                loss=None,
            ),
            1.0,
        )
    [found] = [event for event in events if isinstance(event, trace.Clustered)]
    assert found.purity == pytest.approx(2 / 3)


# ---- a head


class HeadByHand:
    """The engine of a head; the test plays its members."""

    def __init__(self, quorum: int, damped: bool = True, carried: dict[str, int] | None = None) -> None:
        self.sent: dict[str, Train] = {}
        self.results: list[tuple[Vector, Merged]] = []
        self.events: list[trace.Event] = []
        self.engine = ClusterEngine(
            HeadStrategy(quorum, damped),
            vector(0.0),
            version=5,
            ticket_range=RANGE,
            jobs={"a": 4},
            job=Job(steps=2),
            up=lambda delta, merged: self.results.append((delta, merged)),
            send=self._send,
            record=self.events.append,
            carried=carried,
        )
        for name, samples in (("a", 10), ("b", 30), ("c", 60)):
            self.engine.join(DeviceInfo(name=name, samples=samples), 0.0)
        self.engine.start(0.0)

    def _send(self, device: str, message: Train | JoinCluster) -> None:
        assert isinstance(message, Train)
        self.sent[device] = message

    def update(self, device: str, delta: float) -> None:
        train, samples = self.sent[device], self.engine.devices[device].samples
        update = Update(
            device=device,
            ticket=train.ticket,
            version=train.version,
            delta=vector(delta),
            samples=samples,
            steps=2,
            started=0,
            finished=0,
            due=0,
            loss=None,
        )
        self.engine.update(update, self.engine.now)

    def adopt(self, version: int) -> None:
        self.sent.clear()
        self.engine.adopt(vector(float(version)), version, Job(steps=3), 1.0)


def test_three_results_of_saa() -> None:
    cluster = HeadByHand(quorum=2)
    assert cluster.sent["a"].ticket == first_ticket(RANGE) + 1
    assert (cluster.sent["a"].number, cluster.sent["b"].number) == (4, 0)  # the numbers of jobs continue
    cluster.update("a", 4.0)
    assert not cluster.results
    cluster.update("b", 8.0)
    # both fresh: 10/40·4 + 30/40·8
    [(delta, merged)] = cluster.results
    assert (list(delta), [weight for _, weight, _ in merged]) == ([7.0], [0.25, 0.75])

    cluster.adopt(6)
    assert set(cluster.sent) == {"a", "b"}  # those that took part
    assert {train.version for train in cluster.sent.values()} == {6}
    cluster.update("a", 7.0)
    cluster.sent["c"] = next(
        Train(ticket=event.ticket, version=event.version, sent=0.0, job=Job(), model=vector(0.0))
        for event in cluster.events
        if isinstance(event, trace.Dispatched) and event.device == "c"
    )
    cluster.update("c", 7.0)
    # c is based on version 5, τ = 2: 10/70·7 + 60/70·7/2
    delta, merged = cluster.results[1]
    assert list(delta) == pytest.approx([4.0])
    assert [staleness for _, _, staleness in merged] == [0, 1]

    cluster.update("b", 1.0)  # the head waits for a model: this is for the next result
    assert len(cluster.results) == 2
    cluster.adopt(9)  # versions were made without this cluster
    assert set(cluster.sent) == {"a", "c"}
    cluster.update("a", 0.0)
    delta, merged = cluster.results[2]
    assert list(delta) == pytest.approx([30 / 40 * 1.0 / 4])  # b: version 6 of 9
    check_conservation(cluster.engine)


def test_saa_with_an_update_that_was_begun_for_a_former_head() -> None:
    carried = first_ticket(RANGE - 1) + 8
    cluster = HeadByHand(quorum=2, carried={"b": carried})
    assert set(cluster.sent) == {"a", "c"}  # b continues its job, on the model that it has
    cluster.sent["b"] = Train(ticket=carried, version=2, sent=0.0, job=Job(), model=vector(9.0))
    cluster.update("b", 8.0)
    cluster.update("a", 4.0)
    # a is fresh; b is based on version 2 of 5, τ = 4: 10/40·4 + 30/40·8/4
    [(delta, merged)] = cluster.results
    assert list(delta) == [2.5]
    assert merged == ((carried, 30 / 40 / 4, 3), (first_ticket(RANGE) + 1, 0.25, 0))
    assert not [e for e in cluster.events if isinstance(e, trace.Dispatched) and e.ticket == carried]
    cluster.adopt(6)
    assert set(cluster.sent) == {"a", "b"}
    check_conservation(cluster.engine)


def test_a_member_that_has_lost_its_carried_job_gets_another_one() -> None:
    carried = first_ticket(RANGE - 1) + 8
    cluster = HeadByHand(quorum=3, carried={"b": carried, "gone": carried + 1})
    cluster.engine.heartbeat(Heartbeat(device="b", state="training", ticket=carried), 1.0)
    assert "b" not in cluster.sent
    cluster.engine.heartbeat(Heartbeat(device="b", state="idle"), 2.0)
    assert cluster.sent["b"].version == 5
    [lost] = [event for event in cluster.events if isinstance(event, trace.Lost)]
    assert (lost.ticket, lost.reason) == (carried, "its device does not have it any more")
    assert cluster.engine.forget_carried("gone")  # it never joined
    assert not cluster.engine.forget_carried("gone")
    check_conservation(cluster.engine)


def test_without_saa_a_result_is_the_plain_mean() -> None:
    cluster = HeadByHand(quorum=2, damped=False)
    cluster.update("a", 4.0)
    cluster.update("b", 8.0)
    assert list(cluster.results[0][0]) == [6.0]


def test_a_smaller_quorum_takes_effect_at_once() -> None:
    cluster = HeadByHand(quorum=3)
    cluster.update("a", 4.0)
    cluster.update("b", 8.0)
    cluster.engine.leave("c", "it is no member any more", 2.0)
    assert not cluster.results
    cluster.engine.set_quorum(2, 2.0)
    assert len(cluster.results) == 1


def test_a_model_of_the_same_version_starts_the_cluster_again() -> None:
    cluster = HeadByHand(quorum=1)
    cluster.update("a", 4.0)
    cluster.adopt(5)
    assert (set(cluster.sent), cluster.engine.version) == ({"a"}, 5)


def test_a_result_has_the_first_updates_and_the_next_one_the_others() -> None:
    cluster = HeadByHand(quorum=1)
    first = dict(cluster.sent)
    cluster.update("a", 4.0)
    cluster.update("b", 8.0)
    cluster.update("c", 2.0)
    assert [ticket for ticket, _, _ in cluster.results[0][1]] == [first["a"].ticket]
    cluster.adopt(6)
    assert set(cluster.sent) == {"a"}  # the updates of the others wait: they are used first
    cluster.adopt(7)
    assert set(cluster.sent) == {"b"}
    assert [merged for _, merged in cluster.results[1:]] == [
        ((first["b"].ticket, 1 / 2, 1),),
        ((first["c"].ticket, 1 / 3, 2),),
    ]
    assert [list(delta) for delta, _ in cluster.results[1:]] == [[4.0], [pytest.approx(2 / 3)]]
    check_conservation(cluster.engine)


def test_a_waiting_update_is_used_although_its_device_has_left() -> None:
    cluster = HeadByHand(quorum=2)
    for name in "abc":
        cluster.update(name, 4.0)
    cluster.engine.leave("c", "it is no member any more", 1.0)
    cluster.engine.set_quorum(1, 1.0)
    cluster.adopt(6)
    assert len(cluster.results) == 2
    assert set(cluster.sent) == {"a", "b"}
