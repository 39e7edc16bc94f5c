"""The runs for AsyncFedED's figures: five strategies on three tasks, suspensions, adaptive and fixed local work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from testbed.papers.framework.paper import Chosen
from testbed.papers.framework.paper_run import PaperRun, Settings

SEEDS = (1, 2, 3)
SEARCHED = 101
"""The seed on which FEMNIST's learning rate is searched for."""
RATES = (0.01, 0.04, 0.16)
"""Learning rates tried on FEMNIST; the first is the printed one."""
ONE_RATE = RATES[1]
"""Learning rate of all strategies on FEMNIST, as the paper has one for all."""
USUAL = 0.1
"""P of Fig. 2 and, in our interpretation, of Fig. 4."""
SUSPENSIONS = (0.0, USUAL, 0.3, 0.6, 0.9)
"""P of Fig. 3, which has steps of 0.1."""
FIXED = (5, 10, 20)
"""K of Fig. 4, which has 15 as well."""
CAP = 10
"""Largest K of a variant of the adaptive scheme: the initial value."""
OURS = "asyncfeded"
RECORDED = "constant"
"""The strategy whose delays the others replay: its jobs have the printed length, and no device waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTask:
    title: str
    profile: str
    data: str = ""
    same: bool
    """Whether task, network and hyper-parameters are the paper's, and only the run is shorter."""
    tuned: str = ""
    """The task of the paper for which the strategies' parameters were selected; empty: this one."""


TASKS = {
    "synthetic": PaperTask(title="Synthetic(1, 1)", profile="asyncfeded/small-synthetic.toml", same=True),
    "femnist": PaperTask(title="FEMNIST", profile="asyncfeded/small-femnist.toml", data="femnist", same=False),
    "femnist-one-rate": PaperTask(
        title=f"FEMNIST, η = {ONE_RATE:g}",
        profile="asyncfeded/small-femnist.toml",
        data="femnist",
        same=False,
        tuned="femnist",
    ),
    "shakespeare": PaperTask(
        title="Shakespeare", profile="asyncfeded/small-shakespeare.toml", data="shakespeare", same=False
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    title: str
    strategy: str
    settings: Mapping[str, Settings]
    """Task → parameters of the strategy, as the paper selected them."""


def _feded(lam: float, eps: float, kappa: float) -> dict[str, float]:
    return {"lam": lam, "eps": eps, "gamma_bar": 3.0, "kappa": kappa}


def _hinge(alpha: float, both: float) -> Settings:
    return {"damping": "hinge", "alpha": alpha, "a": both, "b": both}


OUR_PARAMETERS = {"synthetic": _feded(5, 5, 1), "femnist": _feded(1, 1, 0.05), "shakespeare": _feded(5, 10, 1)}
"""Task → parameters of AsyncFedED: Table 4, which prints λ/ε and λ."""
CONTENDERS = {
    "asyncfeded": Contender(title="AsyncFedED", strategy="asyncfeded", settings=OUR_PARAMETERS),
    "constant": Contender(
        title="FedAsync+Constant",
        strategy="fedasync",  # Table 2
        settings={
            task: {"damping": "constant", "alpha": alpha}
            for task, alpha in (("synthetic", 0.1), ("femnist", 0.5), ("shakespeare", 0.1))
        },
    ),
    "hinge": Contender(
        title="FedAsync+Hinge",
        strategy="fedasync",  # Table 3, which does not print α: as in Table 2
        settings={"synthetic": _hinge(0.1, 5), "femnist": _hinge(0.5, 0.5), "shakespeare": _hinge(0.1, 15)},
    ),
    "fedavg": Contender(title="FedAvg", strategy="fedavg", settings={task: {} for task in TASKS}),
    "fedprox": Contender(
        title="FedProx",
        strategy="fedprox",  # Table 1
        settings={"synthetic": {"mu": 0.1}, "femnist": {"mu": 1.0}, "shakespeare": {"mu": 0.01}},
    ),
}
"""In the order of the tables."""


def name_of(task: str, strategy: str, seed: int, suspension: float = USUAL) -> str:
    return f"{task}-p{suspension:g}-{strategy}-seed{seed}"


def fixed_name(steps: int, seed: int) -> str:
    return f"synthetic-p{USUAL:g}-k{steps}-seed{seed}"


def capped_name(seed: int) -> str:
    return f"synthetic-p{USUAL:g}-cap{CAP}-seed{seed}"


def search_name(strategy: str) -> str:
    return f"{CONTENDERS[strategy].title} on FEMNIST"


def searched(strategy: str, rate: float) -> list[PaperRun]:
    name = f"search-femnist-{strategy}-lr{rate:g}"
    return [_run(name, "femnist", strategy, SEARCHED, USUAL, {"training.lr": rate}, replays="")]


def paper_runs(chosen: Chosen) -> list[PaperRun]:
    """Figure by figure, so that an interrupted programme has complete results for some of them."""
    rates = {strategy: chosen[search_name(strategy)] for strategy in CONTENDERS}
    found: list[PaperRun] = []
    for seed in SEEDS:
        found += _contest("synthetic", seed, USUAL)
        found += _contest("femnist", seed, USUAL, rates)
        found += _contest("femnist-one-rate", seed, USUAL, dict.fromkeys(CONTENDERS, ONE_RATE))
        found += _contest("shakespeare", seed, USUAL)
    for seed in SEEDS:
        recording = name_of("synthetic", RECORDED, seed)
        for steps in FIXED:
            fixed = {"training.steps": steps, "strategy.kappa": 0.0}
            found.append(_run(fixed_name(steps, seed), "synthetic", OURS, seed, USUAL, fixed, replays=recording))
        capped = {"strategy.k_max": CAP}
        found.append(_run(capped_name(seed), "synthetic", OURS, seed, USUAL, capped, replays=recording))
    for suspension in sorted(set(SUSPENSIONS) - {USUAL}, key=lambda each: abs(each - 0.4), reverse=True):  # ends first
        for seed in SEEDS:
            found += _contest("synthetic", seed, suspension)
    return found


def _contest(task: str, seed: int, suspension: float, rates: Mapping[str, float] | None = None) -> Iterator[PaperRun]:
    recording = name_of(task, RECORDED, seed, suspension)
    for strategy in (RECORDED, *(strategy for strategy in CONTENDERS if strategy != RECORDED)):
        rate = {} if rates is None else {"training.lr": rates[strategy]}
        name = name_of(task, strategy, seed, suspension)
        yield _run(name, task, strategy, seed, suspension, rate, replays="" if strategy == RECORDED else recording)


def _run(
    name: str, task: str, strategy: str, seed: int, suspension: float, more: Settings, *, replays: str
) -> PaperRun:
    tuned = CONTENDERS[strategy].settings[TASKS[task].tuned or task]
    parameters = {f"strategy.{key}": value for key, value in tuned.items()}
    return PaperRun(
        name=name,
        profile=TASKS[task].profile,
        seed=seed,
        strategy=CONTENDERS[strategy].strategy,
        settings={**parameters, "devices[0].suspend": suspension, **more},
        replays=replays,
        data=TASKS[task].data,
    )
