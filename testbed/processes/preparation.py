"""What the template is asked to prepare and to find out for an experiment, and its answer."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from testbed.common.errors import UserError
from testbed.host import calibration
from testbed.host.cores import CorePlan
from testbed.host.survey import Survey
from testbed.learning import setup
from testbed.processes.forkserver import prepared_template, private_folder, wait_for_template
from testbed.processes.template import TemplateRequest
from testbed.profile import speed
from testbed.profile.schema import DeviceProfile, Experiment, LinkProfile


class TemplateFailed(Exception):
    """The template could not be made, and no user could have known."""

    def __init__(self, problem: str, details: str = "") -> None:
        super().__init__(problem)
        self.details = details


def template_request(experiment: Experiment, cores: CorePlan) -> TemplateRequest:
    setting = setup.setting(experiment)
    crowd = {core: min(count, calibration.MOST_PROCESSES) for core, count in Counter(cores.devices).items()}
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
        crowd=crowd if any(profile.throttle != "none" for profile in profiles) else {},
        flops=speed.needs_flops(experiment),
        strategy=experiment.strategy_name,
        rates=tuple(sorted(_rates(experiment))),
        availability=tuple(sorted({group.availability for group in experiment.devices if group.availability})),
    )


def _rates(experiment: Experiment) -> set[str]:
    links = [group.link for group in experiment.devices if isinstance(group.link, LinkProfile)]
    return {way.trace for link in links for way in (link.up, link.down) if way.trace is not None}


def answer(private: Path, interrupted: Callable[[], bool]) -> Survey | None:
    """What the template found out; None if interrupted while it was at it."""
    try:
        said = wait_for_template(private, interrupted)
    except EOFError:
        raise TemplateFailed("the template died while it loaded the task; was memory short?") from None
    if said is None:
        return None
    if said.details:
        raise TemplateFailed(said.problem, said.details)
    if said.survey is None:
        raise UserError(said.problem)
    return said.survey


def survey(experiment: Experiment, cores: CorePlan) -> Survey:
    """Only find out, and start nothing."""
    with private_folder() as private, prepared_template(private, template_request(experiment, cores)):
        found = answer(private, lambda: False)
    assert found is not None
    return found
