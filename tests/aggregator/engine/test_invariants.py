"""``Engine.validate``: each invariant is broken by hand, and the report names it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from aggregator.engine.engine_invariants import InvariantBroken
from aggregator.engine.head_ledgers import Brought, HeadLedger, HeadLedgers
from aggregator.engine.past_models import PastModels
from aggregator.engine.present_devices import PresentDevices
from aggregator.engine.ticket_register import TicketRegister
from aggregator.strategy import Decision, DeviceInfo
from testbed.history import trace
from testbed.wire.messages import Update
from testbed.wire.ticket_ranges import first_ticket
from tests.aggregator.engine.test_engine import Scripted
from tests.aggregator.strategies.by_hand import ByHand, vector


class Accounts:
    """The accounts of an engine with four devices.

    Device a keeps its base: it has delivered version 0 and trains on version 1. The update of b, based on version 0,
    awaits a decision, and b is idle. Device c trains on version 0. Device h is the head of a cluster with the member m
    (which has left): m works on its first ticket, and its second one is merged in a result that awaits a decision.
    """

    def __init__(self) -> None:
        self.hand = ByHand(Scripted())
        strategy, self.engine = self.hand.engine._strategy, self.hand.engine
        assert isinstance(strategy, Scripted)
        self.engine.join(DeviceInfo(name="a", samples=1, keeps_base=True), 0.0)
        self.hand.start(b=1, c=1, h=1, m=1)
        self.hand.update("a", 1.0)
        strategy.answer = lambda server: Decision()
        self.hand.update("b", 1.0)
        self.engine.join_cluster(0, "h", ["h", "m"], 1, damped=False)
        self.engine.dispatch("h", self.engine.job, for_cluster=True)
        self.first = first_ticket(1) + 1
        sent = [
            trace.Dispatched(t=0.0, device="m", ticket=ticket, version=1, steps=1, for_cluster=False)
            for ticket in (self.first, self.first + 1)
        ]
        self.ledgers.enter("h", 1, sent)
        strategy.answer = lambda server: Decision()
        train = self.hand.train("h")
        self.engine.update(result(train.ticket, train.version, self.first + 1), 0.0)
        strategy.answer = lambda server: Decision()
        self.hand.leave("m")

    @property
    def register(self) -> TicketRegister:
        return self.engine._register

    @property
    def present(self) -> PresentDevices:
        return self.engine._present

    @property
    def models(self) -> PastModels:
        return self.register.past_models

    @property
    def ledgers(self) -> HeadLedgers:
        return self.engine.head_ledgers

    @property
    def ledger(self) -> HeadLedger:
        return self.ledgers.ledgers[0]

    @property
    def brought(self) -> int:
        """The ticket of the head whose result awaits a decision."""
        [ticket] = self.ledgers.brought
        return ticket

    def ticket(self, device: str) -> int:
        return self.engine.ticket_of(device)


def result(ticket: int, version: int, merged: int) -> Update:
    return Update(
        device="h",
        ticket=ticket,
        version=version,
        delta=vector(1.0),
        samples=1,
        steps=1,
        started=0.0,
        finished=0.0,
        due=0.0,
        loss=1.0,
        merged=((merged, 1.0, 0),),
    )


@pytest.fixture
def accounts() -> Accounts:
    return Accounts()


def test_the_accounts_of_the_fixture_are_right(accounts: Accounts) -> None:
    accounts.engine.validate()
    assert (accounts.engine.version, accounts.models.holders) == (1, {0: 3, 1: 2})
    assert (accounts.ledgers.in_flight, list(accounts.ledger.open)) == (2, [accounts.first])


Break = Callable[[Accounts], object]


@pytest.mark.parametrize("name", ["dispatched", "applied", "rejected", "lost", "superseded", "delivered"])
def test_a_wrong_count_of_tickets_is_reported(accounts: Accounts, name: str) -> None:
    tally = accounts.engine.tally
    setattr(tally, name, getattr(tally, name) + 1)
    with pytest.raises(InvariantBroken, match=r"^tickets: \d+ were dispatched, but \d+ have ended and \d+ are in fl"):
        accounts.engine.validate()


@pytest.mark.parametrize("name", ["dispatched", "applied", "rejected", "lost", "superseded", "delivered"])
def test_a_wrong_count_of_the_tickets_of_heads_is_reported(accounts: Accounts, name: str) -> None:
    tally = accounts.ledgers.tally
    setattr(tally, name, getattr(tally, name) + 1)
    with pytest.raises(InvariantBroken, match=r"^tickets of heads: \d+ were dispatched"):
        accounts.engine.validate()


def test_a_negative_count_is_reported(accounts: Accounts) -> None:
    accounts.engine.tally.lost -= 1
    accounts.engine.tally.rejected += 1
    assert accounts.engine.tally.lost < 0
    with pytest.raises(InvariantBroken, match="a count is negative"):
        accounts.engine.validate()


def forget_device(accounts: Accounts) -> None:
    accounts.present.remove("c")


def share_ticket(accounts: Accounts) -> None:
    accounts.present["b"].ticket = accounts.present["c"].ticket


def end_twice(accounts: Accounts) -> None:
    del accounts.register.open[accounts.ticket("c")]


def copy_ticket(accounts: Accounts) -> None:
    """The same number, but another object."""
    ticket = accounts.present["c"].ticket
    assert ticket is not None
    accounts.register.open[ticket.number] = type(ticket)(
        number=ticket.number, device="c", train=ticket.train, base=ticket.base
    )


def arrive_and_stay(accounts: Accounts) -> None:
    accounts.register.open[accounts.ticket("c")].arrived = True


def misname_ticket(accounts: Accounts) -> None:
    accounts.register.open[accounts.ticket("c")].device = "a"


def misplace_ticket(accounts: Accounts) -> None:
    accounts.register.open[99] = accounts.register.open.pop(accounts.ticket("c"))


def misname_device(accounts: Accounts) -> None:
    accounts.present["b"].info = DeviceInfo(name="x", samples=1)


TICKETS: dict[str, Break] = {
    "ticket 3 of c is open, but no present device works on it": forget_device,
    "ticket 3 belongs to several devices: b, c": share_ticket,
    "b works on ticket 3, which carries the name c": share_ticket,
    "c works on ticket 3, which is not open": end_twice,
    "c works on ticket 3, which is not open; ": copy_ticket,
    "ticket 3 awaits a decision, but c still works on it": arrive_and_stay,
    "c works on ticket 3, which carries the name a": misname_ticket,
    "ticket 3 is open under the number 99": misplace_ticket,
    "x is present under the name b": misname_device,
}


@pytest.mark.parametrize("report", TICKETS)
def test_a_ticket_that_does_not_belong_to_its_device_is_reported(accounts: Accounts, report: str) -> None:
    assert accounts.ticket("c") == 3
    TICKETS[report](accounts)
    with pytest.raises(InvariantBroken) as broken:
        accounts.engine.validate()
    assert report.removesuffix("; ") in str(broken.value)


def hide_device(accounts: Accounts) -> None:
    del accounts.present._infos["b"]


def hide_work(accounts: Accounts) -> None:
    del accounts.present._tickets["c"]


def show_old_ticket(accounts: Accounts) -> None:
    accounts.present._tickets["c"] = accounts.present._tickets["a"]


def forget_question(accounts: Accounts) -> None:
    accounts.register.open[accounts.ticket("c")].asked = True


def change_order(accounts: Accounts) -> None:
    accounts.present._order["a"] = 99


VIEWS: dict[str, Break] = {
    "the devices are ['a', 'b', 'c', 'h'], but strategies see ['a', 'c', 'h']": hide_device,
    "['a', 'c'] are busy, but strategies see ['a']": hide_work,
    "['a', 'c'] are busy, but strategies see ['a', 'c'], or other tickets of them": show_old_ticket,
    "['c'] wait for a grant, but [] are counted": forget_question,
    "the order in which devices joined was not kept": change_order,
}


@pytest.mark.parametrize("report", VIEWS)
def test_a_view_that_differs_from_the_devices_is_reported(accounts: Accounts, report: str) -> None:
    VIEWS[report](accounts)
    with pytest.raises(InvariantBroken) as broken:
        accounts.engine.validate()
    assert report in str(broken.value)


def keep_unneeded(accounts: Accounts) -> None:
    accounts.models.models[7] = vector(1.0)
    accounts.models.holders[7] = 0


def drop_needed(accounts: Accounts) -> None:
    del accounts.models.models[0]


def drop_current(accounts: Accounts) -> None:
    del accounts.models.models[1]


def replace_current(accounts: Accounts) -> None:
    accounts.models.model = vector(5.0)


MODELS: dict[str, Break] = {
    "version 0 has 4 holders, but 3 tickets and devices need it": lambda accounts: accounts.models.hold(0),
    "version 0 has 2 holders, but 3 tickets and devices need it": lambda accounts: accounts.models.release(0),
    "version 0 has 3 holders, but 2 tickets and devices need it": lambda accounts: setattr(
        accounts.present["a"], "base_version", None
    ),
    "the model of version 7 is kept, but not needed": keep_unneeded,
    "the model of version 0 is needed, but not kept": drop_needed,
    "the model of version 1 is needed, but not kept": drop_current,
    "models are kept of [1], but holders are counted of [0, 1]": drop_needed,
    "the current model is not the one that is kept as version 1": replace_current,
}


@pytest.mark.parametrize("report", MODELS)
def test_a_model_that_is_kept_for_the_wrong_number_of_holders_is_reported(accounts: Accounts, report: str) -> None:
    MODELS[report](accounts)
    with pytest.raises(InvariantBroken) as broken:
        accounts.engine.validate()
    assert report in str(broken.value)


def leave_head(accounts: Accounts) -> None:
    accounts.present.remove("h")


def empty_cluster(accounts: Accounts) -> None:
    accounts.ledger.members.clear()


def ticket_of_another_range(accounts: Accounts) -> None:
    accounts.ledger.open[3] = accounts.ledger.open.pop(accounts.first)


def ticket_beyond_the_last(accounts: Accounts) -> None:
    accounts.ledger.last = 0


def ticket_of_a_stranger(accounts: Accounts) -> None:
    accounts.ledger.open[accounts.first] = "c"


def range_of_another_head(accounts: Accounts) -> None:
    accounts.ledgers.head_of_range[1] = "c"


def range_without_a_head(accounts: Accounts) -> None:
    accounts.ledger.number = 2


def same_range_twice(accounts: Accounts) -> None:
    accounts.ledgers.ledgers[1] = HeadLedger(number=1, cluster=1, head="h", members={"h"})


def misplace_ledger(accounts: Accounts) -> None:
    accounts.ledger.cluster = 5


def end_head_ticket(accounts: Accounts) -> None:
    del accounts.register.open[accounts.brought]


def bring_for_a_device(accounts: Accounts) -> None:
    ticket = accounts.register.open[accounts.brought]
    ticket.train = replace(ticket.train, for_cluster=False)


def bring_for_another_head(accounts: Accounts) -> None:
    tickets = accounts.ledgers.brought[accounts.brought].tickets
    accounts.ledgers.brought[accounts.brought] = Brought(head="c", tickets=tickets)


def bring_before_the_result(accounts: Accounts) -> None:
    accounts.register.open[accounts.brought].arrived = False


def bring_a_ticket_of_the_aggregator(accounts: Accounts) -> None:
    accounts.ledgers.brought[accounts.brought] = Brought(head="h", tickets={3: ("m", 1.0, 0)})


def bring_a_ticket_that_is_open(accounts: Accounts) -> None:
    accounts.ledger.open[accounts.first + 1] = "m"


HEADS: dict[str, Break] = {
    "the ledger of cluster 0 has the head h, which is not present": leave_head,
    "the ledger of cluster 0 has no members": empty_cluster,
    "the ledger of cluster 0 has ticket 3, which is not in its range 1": ticket_of_another_range,
    "but its last ticket is 0": ticket_beyond_the_last,
    "of c, which is no member": ticket_of_a_stranger,
    "has ticket range 1, which was not given to its head h": range_of_another_head,
    "has ticket range 2, which was not given to its head h": range_without_a_head,
    "has ticket range 1, and so has another one": same_range_twice,
    "the ledger of cluster 0 is that of cluster 5": misplace_ledger,
    "which is not open": end_head_ticket,
    "which is no cluster job of h": bring_for_a_device,
    "which is no cluster job of c": bring_for_another_head,
    "which has not arrived": bring_before_the_result,
    "ticket 3 is merged in a result of h, but no head gave it out": bring_a_ticket_of_the_aggregator,
    "is merged in a result of h, but is still open in its ledger": bring_a_ticket_that_is_open,
}


@pytest.mark.parametrize("report", HEADS)
def test_a_wrong_head_ledger_is_reported(accounts: Accounts, report: str) -> None:
    HEADS[report](accounts)
    with pytest.raises(InvariantBroken) as broken:
        accounts.engine.validate()
    assert report in str(broken.value)


def test_everything_that_is_wrong_is_in_one_report(accounts: Accounts) -> None:
    accounts.ledger.members.clear()
    accounts.models.hold(0)
    with pytest.raises(InvariantBroken, match=r"version 0 has 4 holders.*; the ledger of cluster 0 has no members"):
        accounts.engine.validate()


def test_a_broken_invariant_is_an_assertion_error(accounts: Accounts) -> None:
    accounts.models.hold(0)
    with pytest.raises(AssertionError):
        accounts.engine.validate()


def test_the_fixtures_validate_after_every_event(accounts: Accounts) -> None:
    accounts.models.hold(0)
    with pytest.raises(InvariantBroken):
        accounts.hand.heartbeat("c", ticket=3, trains=1)


def test_validating_changes_nothing(accounts: Accounts) -> None:
    before = repr((accounts.register.open, accounts.present, accounts.models.holders, accounts.ledgers.ledgers))
    accounts.engine.validate()
    after = repr((accounts.register.open, accounts.present, accounts.models.holders, accounts.ledgers.ledgers))
    assert after == before
