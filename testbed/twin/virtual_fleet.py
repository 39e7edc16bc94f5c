"""The fleet of a run on a virtual clock: sizes of task and data without any measured time, and the concrete devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from devices.device_config import DeviceConfig
from testbed.common.by_value.object_name import ObjectName
from testbed.common.errors import UserError
from testbed.emulation.recorded import PreparedReplay
from testbed.host.survey import Survey
from testbed.learning.training.task import Task
from testbed.profile import fleet, speed
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment
from testbed.replay import replay_setup


def survey_of(experiment: Experiment, task: Task) -> Survey:
    """Return the survey of a task without times: a virtual clock needs sizes, and FLOPs if speeds are given in them."""
    forward = training = 0
    if speed.needs_flops(experiment):
        forward, training = task.flops()
        if not forward or not training:
            raise UserError(
                f"{experiment.name}: torch counts no FLOPs for the network of task {experiment.task_name!r};"
                " give seconds_per_sample for its devices"
            )
    samples = tuple(len(shard) for shard in task.shards)
    return Survey(
        parameters=task.size,
        samples=samples,
        work=task.work,
        data_sha256=task.data_sha256,
        task_digest=task.digest() if isinstance(experiment.task_name, ObjectName) else "",
        flops_forward=forward,
        flops_training=training,
    )


def devices_of(experiment: Experiment, survey: Survey) -> tuple[DeviceSpec, ...]:
    """Return the devices. A quota has its mean effect here: each computes at its speed, step by step."""
    return tuple(
        spec if spec.throttle == "pace" else replace(spec, throttle="pace")
        for spec in fleet.concrete(experiment, survey)
    )


def configs_of(
    experiment: Experiment, devices: Sequence[DeviceSpec], replayed: PreparedReplay | None = None
) -> list[DeviceConfig]:
    """Return what each device needs. There are no cores and no endpoints."""
    return [
        DeviceConfig(
            spec=spec if replayed is None else replay_setup.with_recorded_absences(spec, replayed),
            cores=(),
            endpoint="",
            seed=experiment.seed,
            dilation=1.0,
            heartbeat_seconds=experiment.presence.heartbeat,
            job=experiment.training,
            recording=None if replayed is None else replayed.recordings[spec.name],
            recording_end=experiment.replay.end,
            bound=experiment.aggregator,
        )
        for spec in devices
    ]
