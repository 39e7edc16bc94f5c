"""The plan of an experiment on this host, measured without a run."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from testbed.common.errors import RunFailed, UserError
from testbed.host import cores
from testbed.learning import setup
from testbed.learning.data import progress_bar
from testbed.planning import planner
from testbed.planning.planner import Plan
from testbed.processes import preparation
from testbed.processes.templates import early
from testbed.profile.schema import Experiment


def plan(experiment: Experiment, waiting: AbstractContextManager[object] | None = None) -> Plan:
    """Load the task and time its steps. Raises UserError, or RunFailed if the task cannot be loaded.

    ``waiting`` is entered while the steps are timed, which takes some seconds.
    """
    if experiment.clock == "virtual":
        raise UserError(f"{experiment.name}: clock is virtual: without deadlines there is nothing to plan; run it")
    early.begin()  # it imports torch while the data is read
    roles = cores.roles()
    with progress_bar.ProgressBar() as progress:
        setup.check(experiment, progress)
    try:
        with waiting or nullcontext():
            survey = preparation.survey(experiment, roles)
    except preparation.TemplateFailed as failure:
        raise RunFailed(str(failure), details=failure.details) from None
    return planner.settled(experiment, survey, roles)
