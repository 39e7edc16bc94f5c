"""What a run says about the survey that it was planned with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from testbed.execution import survey_check
from testbed.execution.survey_check import WRONG, StepUses
from testbed.history.event_pass import pass_events
from testbed.history.events.event import Use
from testbed.history.trace import Trained
from testbed.host import survey_memory
from testbed.host.survey_memory import SurveyTimes
from testbed.planning import planner
from testbed.planning.planner import Plan
from testbed.runs.results.certificate import Certificate, Invariant, Verdict
from tests.testbed.planning.test_planner import OWN_CORE, SURVEY, fleet_of

USUAL = 0.016
"""CPU seconds of a step of 32 by the survey."""


@dataclass(frozen=True)
class Ran:
    """Both devices of the plan: steps of each job, and CPU seconds of each step."""

    cpu: float
    steps: int = 10
    jobs: int = 5

    def uses(self) -> StepUses:
        uses = StepUses()
        use = Use(cpu=self.cpu * self.steps, waited=0.0, stolen=0.0)
        pass_events(
            [
                Trained(
                    t=0.0,
                    device=name,
                    ticket=job,
                    steps=self.steps,
                    checks=0,
                    misses=[],
                    use=use,
                    asked=1.0,
                    obtained=1.0,
                )
                for name in ("d0-1", "d1-1")
                for job in range(self.jobs)
            ],
            uses,
        )
        return uses


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    survey_memory.keep("known", SurveyTimes(measured_at=survey_memory.now()))


def plan(**keys: object) -> Plan:
    survey = msgspec.structs.replace(SURVEY, key="known", **keys)
    return planner.plan(fleet_of(0.01, 0.01), survey, OWN_CORE, 1.0)


def is_kept() -> bool:
    return survey_memory.find("known") is not None


@pytest.mark.parametrize("factor", [1 / WRONG + 0.01, 1.0, WRONG - 0.01])
def test_a_survey_that_the_run_confirms_is_kept_in_silence(factor: float) -> None:
    assert survey_check.recheck(plan(), Ran(USUAL * factor).uses(), None) == []
    assert is_kept()


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_survey_that_the_run_contradicts_is_forgotten_and_a_line_says_so(factor: float) -> None:
    (line,) = survey_check.recheck(plan(), Ran(USUAL * factor).uses(), None)
    assert line.startswith("the survey of this moment was wrong: ")
    assert line.endswith("the next run measures")
    assert not is_kept()


def test_what_a_device_needs_beside_its_steps_is_no_contradiction() -> None:
    short = Ran(USUAL + 0.0025, steps=1, jobs=30)
    assert survey_check.ratio(plan(), short.uses()) == pytest.approx(1.0)


def test_a_run_with_few_steps_says_nothing() -> None:
    assert survey_check.ratio(plan(), Ran(USUAL, steps=1, jobs=3).uses()) is None
    assert survey_check.ratio(plan(), StepUses()) is None


def test_a_run_on_a_busy_host_changes_nothing() -> None:
    slow = Ran(USUAL * 3).uses()
    assert survey_check.recheck(plan(pressure=0.5), slow, None) == []
    canary = Invariant(name="canary", verdict=Verdict.FAIL, found="slower")
    certificate = Certificate(verdict=Verdict.FAIL, invariants=(canary,))
    assert survey_check.recheck(plan(pressure=0.0), slow, certificate) == []
    assert is_kept()
    calm = Certificate(verdict=Verdict.PASS, invariants=(msgspec.structs.replace(canary, verdict=Verdict.PASS),))
    assert survey_check.recheck(plan(pressure=0.0), slow, calm) != []


def test_devices_that_are_not_throttled_are_not_compared() -> None:
    free = planner.plan(fleet_of(None, None), SURVEY, OWN_CORE, 1.0)
    assert survey_check.ratio(replace(free), Ran(1.0).uses()) is None


def served(seconds: float, canary: Verdict = Verdict.PASS) -> Certificate:
    lines = (
        Invariant(name="aggregator", verdict=Verdict.PASS, found="", limits="", figures={"service_host_s": seconds}),
        Invariant(name="canary", verdict=canary, found="", limits=""),
    )
    return Certificate(verdict=Verdict.PASS, invariants=lines)


def test_the_next_plan_reckons_with_what_the_aggregator_needed_for_an_update() -> None:
    survey_check.remember_service(plan(), "fedavg", served(0.0002))
    (entry,) = survey_memory.entries().values()
    assert entry.update_seconds == {"fedavg": 0.0002}
    known = msgspec.structs.replace(SURVEY, update_seconds=entry.update_seconds)
    before, after = (planner.plan(fleet_of(0.01, 0.01), survey, OWN_CORE, 1.0) for survey in (SURVEY, known))
    assert after.service_seconds == pytest.approx(1.5 * 0.0002)
    assert after.cores[0].aggregator < before.cores[0].aggregator


def test_a_busy_host_or_a_run_without_updates_says_nothing_about_the_aggregator() -> None:
    survey_check.remember_service(plan(pressure=0.5), "fedavg", served(0.0002))
    survey_check.remember_service(plan(), "fedavg", served(0.0002, canary=Verdict.FAIL))
    survey_check.remember_service(plan(), "fedavg", served(0.0))
    survey_check.remember_service(plan(), "fedavg", None)
    assert [entry.update_seconds for entry in survey_memory.entries().values()] == [{}]


def test_a_survey_that_was_not_kept_is_not_kept_for_the_aggregators_sake() -> None:
    survey_memory.drop("known")
    survey_check.remember_service(plan(), "fedavg", served(0.0002))
    assert survey_memory.entries() == {}
