"""Builds the configuration of each process of a run from the experiment, the core plan and the admitted plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from aggregator.process.aggregator_config import AggregatorConfig, Resumption
from devices.device_config import GRAIN_SECONDS, CanaryConfig, DeviceConfig
from testbed.emulation.recorded import PreparedReplay
from testbed.host.priority import Policy, Priority
from testbed.host.quotas.cpu_quota import CpuQuota
from testbed.planning.planner import Plan
from testbed.processes.templates.configs import EvaluatorConfig
from testbed.profile import fleet
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment
from testbed.replay import replay_setup
from testbed.wire import credentials, endpoints
from testbed.wire.authentication import new_key_pair
from testbed.wire.messages import EVALUATOR

_CANARY_SHARE = 0.01
"""A canary may use this share of its core: it probes once a second, or less often if its steps are long."""


class FleetConfigs:
    """The configurations of one run.

    The endpoint is an argument of the others' because it is known only when the aggregator is bound to it.
    """

    def __init__(
        self,
        experiment: Experiment,
        plan: Plan,
        private: Path,
        *,
        quotas: Mapping[str, CpuQuota | float],
        replay: PreparedReplay | None,
        resume_at: float | None,
    ) -> None:
        """``private``: the run's private folder. ``quotas``: device → its quota, where it has one."""
        self._experiment, self._cores, self._plan, self._private = experiment, plan.core_plan, plan, private
        self._quotas, self._replay, self._resume_at = quotas, replay, resume_at
        # a canary measures whether paced steps end on time, so it is needed only if a device is paced
        self._canary_cores = sorted(set(self._cores.devices)) if plan.shortest_step is not None else []
        names = [*device_names(plan), *map(_canary_name, self._canary_cores), EVALUATOR]
        transport = experiment.transport
        new_pair = new_key_pair if endpoints.is_encrypted(transport) else None
        self._allow, self._credentials = credentials.issue(names, new_pair, passwords=transport.kind == "tcp")
        self.dead = fleet.dead_at(plan.devices, resume_at) if resume_at is not None else frozenset[str]()
        """Devices that the script had killed before ``resume_at``."""

    @property
    def status_file(self) -> Path:
        return self._private / "status.json"

    def aggregator(self, run_folder: Path) -> AggregatorConfig:
        plan = self._plan
        resume = Resumption(at=self._resume_at, dead=self.dead) if self._resume_at is not None else None
        return AggregatorConfig(
            experiment=self._experiment,
            devices=plan.devices,
            dilation=plan.dilation,
            demand=plan.demand,
            pressure=plan.survey.pressure,
            survey_age=plan.survey.age_seconds,
            canaries=tuple(map(_canary_name, self._canary_cores)),
            core=self._cores.aggregator,
            policy=self._cores.policy,
            endpoint=endpoints.endpoint(self._experiment.transport, self._private),
            allow=self._allow,
            run_folder=str(run_folder),
            status_file=str(self.status_file),
            replay=self._replay,
            resume=resume,
        )

    def evaluator(self, endpoint: str) -> EvaluatorConfig:
        """The evaluator runs when its core is idle. Beside devices without deadlines, which fill every core, it is
        like one of them.
        """
        plan = self._cores
        return EvaluatorConfig(
            cores=(plan.evaluator,) if plan.pinned else plan.cores_of(0),
            priority=Priority.EVALUATOR if plan.pinned else Priority.DEVICE,
            endpoint=endpoint,
            credential=self._credentials[EVALUATOR],
        )

    def devices(self, endpoint: str) -> dict[str, DeviceConfig]:
        """The configuration of each device by name, dead devices included."""
        return {spec.name: self._device(spec, endpoint) for spec in self._plan.devices}

    def canaries(self, endpoint: str) -> dict[str, CanaryConfig]:
        """One canary for each core with devices. Its probe is as long as the steps that a device checks together."""
        step = self._plan.shortest_step
        if step is None:
            return {}
        steps = math.ceil(GRAIN_SECONDS / step.asked)
        return {
            name: CanaryConfig(
                name=name,
                core=core,
                priority=self._priority((core,)),
                endpoint=endpoint,
                credential=self._credentials[name],
                dilation=self._plan.dilation,
                job=self._experiment.training,
                batch=step.samples,
                steps=steps,
                seconds=steps * step.asked,
                every=max(1.0, steps * step.needed / _CANARY_SHARE),
            )
            for core in self._canary_cores
            for name in [_canary_name(core)]
        }

    def _device(self, spec: DeviceSpec, endpoint: str) -> DeviceConfig:
        experiment, replay, cores = self._experiment, self._replay, self._cores.cores_of(spec.index)
        return DeviceConfig(
            spec=spec if replay is None else replay_setup.with_recorded_absences(spec, replay),
            cores=cores,
            priority=self._priority(cores),
            endpoint=endpoint,
            credential=self._credentials[spec.name],
            seed=experiment.seed,
            dilation=self._plan.dilation,
            heartbeat_seconds=experiment.presence.heartbeat,
            job=experiment.training,
            quota=self._quotas.get(spec.name),
            recording=replay.recordings[spec.name] if replay is not None else None,
            recording_end=experiment.replay.end,
            heads=str(self._private),
            bound=experiment.aggregator,
            begins=self._resume_at or 0.0,
        )

    def _priority(self, cores: tuple[int, ...]) -> Priority:
        """Return the priority of devices on these cores: very low beside an aggregator that is an ordinary process."""
        plan = self._cores
        needs_slack = plan.pinned or plan.policy is Policy.SHORT_SLICE
        beside = needs_slack and plan.aggregator in cores and plan.policy is not Policy.REAL_TIME
        return Priority.DEVICE_BESIDE_AGGREGATOR if beside else Priority.DEVICE


def device_names(plan: Plan) -> list[str]:
    return [spec.name for spec in plan.devices]


def _canary_name(core: int) -> str:
    return f"canary@{core}"
