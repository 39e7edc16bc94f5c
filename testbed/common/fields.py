"""The types of fields of messages and events: numbers and texts with bounds, which msgspec checks when it decodes."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

LARGEST_COUNT = 1 << 53
"""Every JSON reader represents integers up to here exactly, and sums of counts still fit into a message."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]
PositiveInt: TypeAlias = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
"""Steps of a job, samples of a device, or a process id (where 0 would mean the own process group)."""
Samples: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
"""Samples of a peer that may have none, such as the evaluator."""
Epochs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 22)]
"""Bounded so that epochs times the samples of a device is still a Count."""
Number: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
"""A finite float: the bounds exclude NaN and the infinities."""
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
"""A moment or a duration of a run, at most 30,000 years: sums and products of them stay finite."""
PositiveSeconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
Measure: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
"""Another quantity of a run, such as a rate or a power; bounded for the same reason."""
Rate: TypeAlias = Annotated[float, msgspec.Meta(ge=1e-9, le=1e15)]
Factor: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e30)]
"""A factor of single-precision vectors."""
Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
Moment: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
"""A time of the host's clock, bounded so that system calls accept a wait until then."""
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=1000)]
