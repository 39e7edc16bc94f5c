"""The connection of a run to its templates: the request for an experiment, the survey, and the run templates."""

from __future__ import annotations

import contextlib
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from aggregator.strategies import STRATEGIES
from aggregator.strategy import Strategy
from testbed.common.by_value.object_name import ObjectName
from testbed.common.channel import Channel, readable
from testbed.common.errors import RunFailed, UserError
from testbed.host import calibration, surroundings, survey_memory
from testbed.host.core_plan import CoreRoles
from testbed.host.private_folder import PrivateFolder, private_folder
from testbed.host.survey import Survey
from testbed.learning import setup
from testbed.processes.pool import RunTemplate
from testbed.processes.templates import early
from testbed.processes.templates.forkserver import ForkReport
from testbed.processes.templates.template import (
    OpenTemplates,
    Prepare,
    TemplateAnswer,
    TemplateRequest,
    TemplatesOpened,
    ToLauncher,
)
from testbed.profile import speed
from testbed.profile.schema import DeviceProfile, Experiment, LinkProfile

_LOOK_SECONDS = 0.02
_DEVICES_PER_TEMPLATE = 16
"""A further template takes as long to fork as a device."""
_MOST_TEMPLATES = 64
"""On hosts with more cores, too: one message carries all their sockets, and the kernel passes at most 253 at once."""


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
        source=experiment.name,
        task=str(experiment.task_name),
        parameters=experiment.task_parameters,
        devices=setting.devices,
        data_seed=setting.data_seed,
        model_seed=setting.model_seed,
        data_state=setup.entry(experiment.task_name, experiment.task_parameters, experiment.name).data_state(),
        job=experiment.training,
        crowd={core: min(count, calibration.MOST_PROCESSES) for core, count in crowd.items()}
        if any(profile.throttle != "none" for profile in profiles)
        else {},
        flops=speed.needs_flops(experiment),
        objects={kind: name.snapshot().digest for kind, name in objects_of(experiment).items()},
        strategy=str(experiment.strategy_name) if _has_slow_imports(experiment) else "",
        rates=tuple(sorted(_rates(experiment))),
        remembered=survey_memory.is_wanted(),
        availability=tuple(sorted({group.availability for group in experiment.devices if group.availability})),
    )


def objects_of(experiment: Experiment) -> dict[str, ObjectName]:
    """Return the Python objects of an experiment: its task, its strategy."""
    named = {"task": experiment.task_name, "strategy": experiment.strategy_name}
    return {kind: name for kind, name in named.items() if isinstance(name, ObjectName)}


def _has_slow_imports(experiment: Experiment) -> bool:
    """Whether the strategy overrides ``preload``. Other user modules are imported by the aggregator alone."""
    chosen = STRATEGIES.find(experiment.strategy_name, experiment.name, "strategy")
    return chosen.preload.__func__ is not Strategy.preload.__func__  # type: ignore[attr-defined]


def _rates(experiment: Experiment) -> set[str]:
    links = [group.link for group in experiment.devices if isinstance(group.link, LinkProfile)]
    return {side.trace for link in links for side in (link.up, link.down) if side.trace is not None}


class Preparation:
    """The connection of one run to the template that prepares its task."""

    def __init__(self, connection: socket.socket) -> None:
        self._channel: Channel[ToLauncher] = Channel(connection, ToLauncher)

    def request(self, request: TemplateRequest, private: PrivateFolder, objects: Sequence[int] = ()) -> None:
        """``objects``: the descriptors of ``request.objects``."""
        prepare = Prepare(
            request=request,
            surroundings=surroundings.of_this_process(early.settings()),
            private=os.fsencode(private.path),
        )
        with Path(os.devnull).open("wb") as nowhere, contextlib.suppress(OSError):  # it has died: no answer will come
            outputs = [each if early.is_output(each) else nowhere.fileno() for each in (1, 2)]
            self._channel.send(prepare, [*outputs, *objects, *private.share()])

    def survey(self, interrupted: Callable[[], bool]) -> Survey | None:
        """Wait for the survey; None if interrupted. Raises UserError or TemplateFailed."""
        while not readable([self._channel.fileno()], _LOOK_SECONDS):
            if interrupted():
                return None
        try:
            reply = self._channel.receive()[0]
        except EOFError:
            raise TemplateFailed(
                "the template died while it loaded the task; free memory, or use a smaller task"
            ) from None
        assert isinstance(reply, TemplateAnswer)
        if reply.details:
            raise TemplateFailed(reply.problem, reply.details)
        if reply.survey is None:
            raise UserError(reply.problem)
        return reply.survey

    def run_templates(self, devices: int, log: Path = Path(os.devnull)) -> list[RunTemplate]:
        """Have the template fork run templates: one for each core, fewer for a small fleet. Raises RunFailed.

        ``log``: the file for their errors.
        """
        count = min(len(os.sched_getaffinity(0)), 1 + devices // _DEVICES_PER_TEMPLATE, _MOST_TEMPLATES)
        with contextlib.ExitStack() as stack:
            pairs = [socket.socketpair() for _ in range(count)]
            for _, theirs in pairs:
                stack.enter_context(theirs)
            try:
                request = OpenTemplates(log=os.fsencode(log.absolute()))
                self._channel.send(request, [theirs.fileno() for _, theirs in pairs])
                reply = self._channel.receive()[0]
            except (OSError, EOFError):
                reply = TemplatesOpened(problem="it has died")
        assert isinstance(reply, TemplatesOpened)
        if reply.problem:
            for ours, _ in pairs:
                ours.close()
            raise RunFailed(
                f"the template could not be forked: {reply.problem};"
                " free memory, or raise the limit on processes (ulimit -u)"
            )
        return [RunTemplate(Channel(ours, ForkReport), pid) for (ours, _), pid in zip(pairs, reply.pids, strict=True)]

    def close(self) -> None:
        self._channel.close()


@contextlib.contextmanager
def prepared_template(
    private: PrivateFolder, request: TemplateRequest, objects: Mapping[str, ObjectName] | None = None
) -> Iterator[Preparation]:
    """Have a template prepare ``request``; at the end of the block, end all that was forked for it.

    ``objects``: those that the request names.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(early.release)
        preparation = Preparation(early.connect())
        stack.callback(preparation.close)
        descriptors = [name.snapshot().descriptor for name in (objects or {}).values()]
        preparation.request(request, private, descriptors)
        yield preparation


def survey(experiment: Experiment, roles: CoreRoles) -> Survey:
    """Make a survey without starting a run."""
    request, objects = template_request(experiment, roles), objects_of(experiment)
    with private_folder() as private, prepared_template(private, request, objects) as template:
        found = template.survey(lambda: False)
    assert found is not None
    return found
