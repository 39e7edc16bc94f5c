"""The type of meta.json: on what, with what and by which processes a run was made."""

from __future__ import annotations

from typing import Annotated

import msgspec

from testbed.common.documented import doc
from testbed.host.core_plan import CorePlan
from testbed.host.survey import Survey
from testbed.runs.results.summary import SCHEMA


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The host of a run."""

    system: Annotated[str, doc("the operating system")] = ""
    processor: Annotated[str, doc("the processor")] = ""
    cores: Annotated[int | None, doc("its cores")] = None
    memory_bytes: Annotated[int | None, doc("its memory", "bytes")] = None


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """On what, with what and by which processes a run was made (meta.json)."""

    schema: Annotated[int, doc("of this file; missing in files of earlier versions")] = SCHEMA
    edgebed: Annotated[str, doc("version of Edgebed")] = ""
    python: Annotated[str, doc("version of Python")] = ""
    packages: Annotated[dict[str, str], doc("version of each package", key="package")] = {}
    host: HostFacts = HostFacts()
    profile: Annotated[str | None, doc("the profile that the run was started with, if its path is UTF-8")] = None
    seed: Annotated[int | None, doc("of batches and faults, and of what has no seed of its own")] = None
    data_seed: Annotated[int | None, doc("of the split and of generated data")] = None
    model_seed: Annotated[int | None, doc("of the initial weights")] = None
    clock: Annotated[str, doc("wall, or virtual: nothing was measured")] = "wall"
    core_plan: Annotated[
        CorePlan | None, doc("the cores of the aggregator, of the evaluator, and of each device in fleet order")
    ] = None
    dilation: Annotated[float | None, doc("host seconds per emulated second")] = None
    demand: Annotated[dict[str, float], doc("share of the core that the run needs", key="core")] = {}
    quotas: Annotated[dict[str, float], doc("share of a core that a device with a quota may use", key="device")] = {}
    calibration: Annotated[Survey | None, doc("the survey: sizes, FLOPs and seconds per step on this host")] = None
    pids: Annotated[dict[str, int], doc("number of each process", key="process")] = {}
