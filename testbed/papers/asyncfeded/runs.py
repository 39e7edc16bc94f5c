"""Which runs AsyncFedED's figures take: five rules on three tasks, suspensions, adaptive and fixed local work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.papers.framework.job import Job
from testbed.papers.framework.paper import Chosen

SEEDS = (1, 2, 3)
SEARCHED = 101
"""The seed on which FEMNIST's learning rate is searched for."""
RATES = (0.01, 0.04, 0.16)
"""Of FEMNIST; the first is the printed one."""
ONE_RATE = RATES[1]
"""Of FEMNIST, for all rules alike, as the paper has one for all."""
USUAL = 0.1
"""P of Fig. 2 and, as we read it, of Fig. 4."""
SUSPENSIONS = (0.0, USUAL, 0.3, 0.6, 0.9)
"""P of Fig. 3, which has every tenth."""
FIXED = (5, 10, 20)
"""K of Fig. 4, which has 15 as well."""
CAP = 10
"""Largest K of a variant of the adaptive scheme: nobody has more to do than at first."""
OURS = "asyncfeded"
RECORDED = "constant"
"""Whose delays the others meet: it asks every device for jobs of the printed length, and lets none of them wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    title: str
    profile: str
    data: str = ""
    same: bool
    """Whether it is the paper's task, network and hyper-parameters, and only shorter."""
    tuned: str = ""
    """The task of the paper for which a rule's parameters were selected; empty: this one."""


TASKS = {
    "synthetic": Task(title="Synthetic(1, 1)", profile="asyncfeded/small-synthetic.toml", same=True),
    "femnist": Task(title="FEMNIST", profile="asyncfeded/small-femnist.toml", data="femnist", same=False),
    "femnist-one-rate": Task(
        title=f"FEMNIST, η = {ONE_RATE:g}", profile="asyncfeded/small-femnist.toml", data="femnist", same=False,
        tuned="femnist",
    ),
    "shakespeare": Task(
        title="Shakespeare", profile="asyncfeded/small-shakespeare.toml", data="shakespeare", same=False
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    title: str
    rule: str
    settings: Mapping[str, Mapping[str, Any]]
    """Task → parameters of the rule, as the paper selected them."""


def _feded(lam: float, eps: float, kappa: float) -> dict[str, Any]:
    return {"lam": lam, "eps": eps, "gamma_bar": 3.0, "kappa": kappa}


def _hinge(alpha: float, both: float) -> dict[str, Any]:
    return {"damping": "hinge", "alpha": alpha, "a": both, "b": both}


RULES = {
    "asyncfeded": Contender(
        title="AsyncFedED", rule="asyncfeded",  # Table 4; it prints λ/ε and λ
        settings={"synthetic": _feded(5, 5, 1), "femnist": _feded(1, 1, 0.05), "shakespeare": _feded(5, 10, 1)},
    ),
    "constant": Contender(
        title="FedAsync+Constant", rule="fedasync",  # Table 2
        settings={
            task: {"damping": "constant", "alpha": alpha}
            for task, alpha in (("synthetic", 0.1), ("femnist", 0.5), ("shakespeare", 0.1))
        },
    ),
    "hinge": Contender(
        title="FedAsync+Hinge", rule="fedasync",  # Table 3, which does not print α: as in Table 2
        settings={"synthetic": _hinge(0.1, 5), "femnist": _hinge(0.5, 0.5), "shakespeare": _hinge(0.1, 15)},
    ),
    "fedavg": Contender(title="FedAvg", rule="fedavg", settings={task: {} for task in TASKS}),
    "fedprox": Contender(
        title="FedProx", rule="fedprox",  # Table 1
        settings={"synthetic": {"mu": 0.1}, "femnist": {"mu": 1.0}, "shakespeare": {"mu": 0.01}},
    ),
}  # fmt: skip
"""In the order of the tables."""


def name_of(task: str, rule: str, seed: int, suspension: float = USUAL) -> str:
    return f"{task}-p{suspension:g}-{rule}-seed{seed}"


def fixed_name(steps: int, seed: int) -> str:
    return f"synthetic-p{USUAL:g}-k{steps}-seed{seed}"


def capped_name(seed: int) -> str:
    return f"synthetic-p{USUAL:g}-cap{CAP}-seed{seed}"


def search_name(rule: str) -> str:
    return f"{RULES[rule].title} on FEMNIST"


def searched(rule: str, rate: float) -> list[Job]:
    name = f"search-femnist-{rule}-lr{rate:g}"
    return [_job(name, "femnist", rule, SEARCHED, USUAL, {"training.lr": rate}, replays="")]


def jobs(chosen: Chosen) -> list[Job]:
    """Figure by figure: a programme that is cut short says all about some of them."""
    rates = {rule: chosen[search_name(rule)] for rule in RULES}
    found: list[Job] = []
    for seed in SEEDS:
        found += _contest("synthetic", seed, USUAL)
        found += _contest("femnist", seed, USUAL, rates)
        found += _contest("femnist-one-rate", seed, USUAL, dict.fromkeys(RULES, ONE_RATE))
        found += _contest("shakespeare", seed, USUAL)
    for seed in SEEDS:
        recording = name_of("synthetic", RECORDED, seed)
        for steps in FIXED:
            held = {"training.steps": steps, "strategy.kappa": 0.0}
            found.append(_job(fixed_name(steps, seed), "synthetic", OURS, seed, USUAL, held, replays=recording))
        capped = {"strategy.k_max": CAP}
        found.append(_job(capped_name(seed), "synthetic", OURS, seed, USUAL, capped, replays=recording))
    for suspension in sorted(set(SUSPENSIONS) - {USUAL}, key=lambda each: abs(each - 0.4), reverse=True):  # ends first
        for seed in SEEDS:
            found += _contest("synthetic", seed, suspension)
    return found


def _contest(task: str, seed: int, suspension: float, rates: Mapping[str, float] | None = None) -> Iterator[Job]:
    recording = name_of(task, RECORDED, seed, suspension)
    for rule in (RECORDED, *(rule for rule in RULES if rule != RECORDED)):
        rate = {} if rates is None else {"training.lr": rates[rule]}
        name = name_of(task, rule, seed, suspension)
        yield _job(name, task, rule, seed, suspension, rate, replays="" if rule == RECORDED else recording)


def _job(
    name: str, task: str, rule: str, seed: int, suspension: float, more: Mapping[str, Any], *, replays: str
) -> Job:
    tuned = RULES[rule].settings[TASKS[task].tuned or task]
    parameters = {f"strategy.{key}": value for key, value in tuned.items()}
    return Job(
        name=name,
        profile=TASKS[task].profile,
        seed=seed,
        rule=RULES[rule].rule,
        settings={**parameters, "devices[0].suspend": suspension, **more},
        replays=replays,
        data=TASKS[task].data,
    )
