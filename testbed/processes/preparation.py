"""The request to the template for an experiment, and its answer: the survey."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from aggregator.strategies import STRATEGIES
from aggregator.strategy import Strategy
from testbed.common.errors import UserError
from testbed.host import calibration, survey_memory
from testbed.host.core_plan import CoreRoles
from testbed.host.survey import Survey
from testbed.learning import setup
from testbed.processes.forkserver import prepared_template, private_folder, wait_for_template
from testbed.processes.template import TemplateRequest
from testbed.profile import speed
from testbed.profile.schema import DeviceProfile, Experiment, LinkProfile


class TemplateFailed(Exception):
    """The template failed for a reason that is not the user's; ``details`` is the traceback."""

    def __init__(self, problem: str, details: str = "") -> None:
        super().__init__(problem)
        self.details = details


def template_request(experiment: Experiment, roles: CoreRoles) -> TemplateRequest:
    setting = setup.setting(experiment)
    cores = roles.device_cores if experiment.cores == "apart" else roles.shareable
    crowd = Counter(cores[i % len(cores)] for i in range(setting.devices))
    profiles = [group.profile for group in experiment.devices if isinstance(group.profile, DeviceProfile)]
    return TemplateRequest(
        launcher=os.getpid(),
        source=experiment.name,
        task=experiment.task_name,
        parameters=experiment.task_parameters,
        devices=setting.devices,
        data_seed=setting.data_seed,
        model_seed=setting.model_seed,
        job=experiment.training,
        crowd={core: min(count, calibration.MOST_PROCESSES) for core, count in crowd.items()}
        if any(profile.throttle != "none" for profile in profiles)
        else {},
        flops=speed.needs_flops(experiment),
        strategy=experiment.strategy_name if _has_slow_imports(experiment) else "",
        rates=tuple(sorted(_rates(experiment))),
        remembered=survey_memory.is_wanted(),
        availability=tuple(sorted({group.availability for group in experiment.devices if group.availability})),
    )


def _has_slow_imports(experiment: Experiment) -> bool:
    """Whether the strategy overrides ``preload``. Other user modules are imported by the aggregator alone."""
    chosen = STRATEGIES.find(experiment.strategy_name, experiment.name, "strategy")
    return chosen.preload.__func__ is not Strategy.preload.__func__  # type: ignore[attr-defined]


def _rates(experiment: Experiment) -> set[str]:
    links = [group.link for group in experiment.devices if isinstance(group.link, LinkProfile)]
    return {side.trace for link in links for side in (link.up, link.down) if side.trace is not None}


def answer(private: Path, interrupted: Callable[[], bool]) -> Survey | None:
    """Wait for the survey; None if interrupted. Raises UserError or TemplateFailed."""
    try:
        reply = wait_for_template(private, interrupted)
    except EOFError:
        raise TemplateFailed("the template died while it loaded the task; free memory, or use a smaller task") from None
    if reply is None:
        return None
    if reply.details:
        raise TemplateFailed(reply.problem, reply.details)
    if reply.survey is None:
        raise UserError(reply.problem)
    return reply.survey


def survey(experiment: Experiment, roles: CoreRoles) -> Survey:
    """Make a survey without starting a run."""
    with private_folder() as private, prepared_template(private, template_request(experiment, roles)):
        found = answer(private, lambda: False)
    assert found is not None
    return found
