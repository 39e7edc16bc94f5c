"""Refuses what has no meaning on a virtual clock, or only there."""

from __future__ import annotations

from testbed.common.errors import ProfileError
from testbed.profile.schema import DeviceProfile, Experiment


def check_clock(experiment: Experiment, source: str) -> None:
    """Raise ProfileError if the clock of an experiment does not fit the rest of it."""
    if experiment.clock == "wall":
        if experiment.compute == "none":
            problem = "is none; only a run on a virtual clock goes without training: add clock = 'virtual'"
            raise ProfileError(source, "compute", problem)
        return
    for i, group in enumerate(experiment.devices):
        assert isinstance(group.profile, DeviceProfile)
        if group.profile.throttle == "none":
            problem = "is none: the device has no speed, and a virtual clock measures none; give seconds_per_sample"
            raise ProfileError(source, f"devices[{i}].profile.throttle", problem)
        if group.of_host is not None or group.profile.of_host is not None:
            problem = "is a share of this host's speed, which a virtual clock does not measure; give seconds_per_sample"
            raise ProfileError(source, f"devices[{i}].of_host", problem)
    stop = experiment.stop
    ends = stop.seconds is not None or stop.versions is not None or experiment.replay.trace is not None
    if experiment.compute == "none" and not ends:
        problem = "has no seconds and no versions; without training, no score ends a run: add stop.seconds"
        raise ProfileError(source, "stop", problem)
