"""One run of a paper's programme: an experiment, its changed settings, and the recording that it replays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from testbed.loading import profile_files, profile_loader
from testbed.profile.schema import Experiment

SettingValue: TypeAlias = bool | int | float | str
"""A value of ``--set``. A string is passed on as it is, so that it may also be a TOML table."""
Settings: TypeAlias = Mapping[str, SettingValue]
"""Key of the profile → value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRun:
    name: str
    """Unique among the runs of the paper; also the name of its folder."""
    profile: str
    """Below ``profiles/experiments``: ``asyncfeded/small-synthetic.toml``."""
    seed: int
    strategy: str = ""
    """Empty: the profile's. A strategy that is named here has its default parameters."""
    settings: Settings = field(default_factory=dict)
    replays: str = ""
    """Name of an earlier run whose recorded delays it replays."""
    data: str = ""
    """Name of the data set that it needs; empty if it needs no file."""

    @property
    def overrides(self) -> list[str]:
        """The settings as arguments of ``--set``."""
        return [f"{key}={_written(value)}" for key, value in self.settings.items()]

    def words(self) -> list[str]:
        """The arguments of its command line, without ``--replay`` and ``--out``."""
        words = ["run", self.profile, f"--seed={self.seed}"]
        words += [f"--strategy={self.strategy}"] if self.strategy else []
        return words + [f"--set={override}" for override in self.overrides]

    def experiment(self) -> Experiment:
        """The experiment as its run will load it. Raises UserError."""
        replaced: dict[str, int | str] = {"seed": self.seed}
        if self.strategy:
            replaced["strategy"] = self.strategy
        return profile_loader.load(profile_files.located(Path(self.profile)), self.overrides, replaced)


def _written(value: SettingValue) -> str:
    """A setting as TOML; a text is TOML already, or a name."""
    return value if isinstance(value, str) else json.dumps(value)
