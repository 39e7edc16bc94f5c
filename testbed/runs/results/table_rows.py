"""The rows of metrics.csv, versions.csv, devices.csv and rounds.csv: a column for each field, in this order."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from testbed.common.documented import doc

Joules: TypeAlias = float | None
"""None without a power model."""


class MetricRow(msgspec.Struct, frozen=True, kw_only=True):
    """A scored version, at the moment at which it was made (not when its score was known)."""

    time_s: Annotated[float, doc("when the version was made, since the start of the run", "s")]
    host_s: Annotated[float, doc("the same moment by the host's clock: `time_s` × dilation", "host s")]
    version: Annotated[int, doc("its number; 0 is the initial model")]
    joules: Annotated[Joules, doc("energy of the whole fleet so far; empty if a device has no power model", "J")]
    bytes: Annotated[
        int, doc("bytes of all transfers in both directions that ended before, including lost ones", "bytes")
    ]
    scores: Annotated[
        dict[str, float],
        doc(
            "on the test data, a column for each: `accuracy` (0 to 1), `loss` (mean) and others",
            "by task",
            key="metric",
        ),
    ] = {}


class VersionRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A version."""

    version: Annotated[int, doc("its number, from 1")]
    time_s: Annotated[float, doc("when it was made", "s")]
    latency_s: Annotated[float, doc("since the previous version; for the first, since the start of the run", "s")]
    updates: Annotated[int, doc("updates in it, including those that were already in an earlier version")]
    new_updates: Annotated[int, doc("K_t: updates that are in a version for the first time")]
    weight: Annotated[float, doc("sum of the absolute values of the updates' weights")]
    mean_staleness: Annotated[float | None, doc("of the new updates: versions made since the base of each", "versions")]
    max_staleness: Annotated[int | None, doc("of the new updates", "versions")]
    planned_s: Annotated[
        float | None,
        doc(
            "planned length of the round that it ends (T*); this and the next two are empty if the strategy plans no"
            " rounds",
            "s",
        ),
    ] = None
    queue_s: Annotated[
        float | None, doc("q_t: by how much the previous rounds were too long, when that round began", "s")
    ] = None
    time_usage: Annotated[float | None, doc("unified time usage: seconds of all rounds so far ÷ T_max")] = None


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A device over the whole run."""

    device: Annotated[str, doc("its name")]
    pid: Annotated[int, doc("of its process; after a restart, of the last one")]
    core: Annotated[int | None, doc("that it is pinned to, as its process reads it; empty if it may use several")]
    samples: Annotated[int, doc("in its partition of the data")]
    jobs: Annotated[int, doc("tickets that were sent to it, without the final model")]
    to_aggregator: Annotated[
        int, doc("its updates that reached the aggregator itself: those of cluster members go to their head")
    ]
    applied: Annotated[
        int,
        doc("its updates that became part of a version; for a cluster head also those that it made from its members'"),
    ]
    rejected: Annotated[int, doc("updates that the strategy or the engine rejected")]
    lost: Annotated[int, doc("tickets whose device left or gave up the upload")]
    superseded: Annotated[int, doc("tickets that a newer one replaced before they ended")]
    poisoned: Annotated[int, doc("updates that it falsified before it sent them, by the script or in a replay")] = 0
    drops: Annotated[int, doc("lost transfers")]
    bytes_up: Annotated[int, doc("sent by it, including lost transfers", "bytes")]
    bytes_down: Annotated[int, doc("sent to it, including lost transfers", "bytes")]
    busy_s: Annotated[float, doc("computing, including discarded work", "s")]
    download_s: Annotated[float, doc("receiving, without absences", "s")]
    upload_s: Annotated[float, doc("sending, without absences", "s")]
    waiting_s: Annotated[float, doc("waiting for a grant to upload", "s")]
    suspended_s: Annotated[float, doc("suspended or absent", "s")]
    dead_s: Annotated[float, doc("between a scripted kill and the rejoin or the end of the run", "s")]
    abandoned_s: Annotated[
        float, doc("the part of `busy_s` that was discarded because the strategy sent a newer model", "s")
    ]
    idle_s: Annotated[
        float,
        doc(
            "neither busy nor in a transfer, waiting, suspended or dead; those states may overlap (a download during an"
            " old job)",
            "s",
        ),
    ]
    asked_s: Annotated[
        float, doc("that its finished jobs should have computed by its speed; 0 if it is not throttled", "s")
    ]
    obtained_s: Annotated[float, doc("that these jobs computed by the clock", "s")]
    energy_j: Annotated[
        Joules, doc("the sum of the next five columns. All joules are empty without a power model", "J")
    ]
    idle_j: Annotated[
        Joules,
        doc("idle watts × seconds in which it neither computed nor was suspended or dead (including transfers)", "J"),
    ]
    suspended_j: Annotated[Joules, doc("suspended watts × `suspended_s`; idle watts if the profile has no others", "J")]
    compute_j: Annotated[Joules, doc("compute watts × `busy_s`", "J")]
    transmit_j: Annotated[Joules, doc("additional watts of the radio × `upload_s`", "J")]
    receive_j: Annotated[Joules, doc("additional watts of the radio × `download_s`", "J")]
    wasted_j: Annotated[
        Joules, doc("for downloads, computing and uploads of tickets whose update is in no version", "J")
    ]
    joules_per_update: Annotated[Joules, doc("`energy_j` ÷ `applied`; empty if `applied` is 0", "J")]
    contribution: Annotated[
        float,
        doc(
            "its share of the sum of all weights (absolute values) that the strategy gave to updates, in all versions",
            "0 to 1",
        ),
    ]
    first_loss: Annotated[
        float | None, doc("of its first update: mean over the local steps, local model on local data")
    ]
    last_loss: Annotated[float | None, doc("the same of its last update")]
    missed: Annotated[int, doc("steps that missed their deadline")]
    host_cpu_s: Annotated[float, doc("that its process ran in jobs", "host s")]
    host_waited_s: Annotated[float, doc("that its process waited for a core in jobs", "host s")]
    mean_staleness: Annotated[float | None, doc("of its updates that became part of a version", "versions")]


class RoundRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A round, as Forootani and Iervolino 2025 measure them."""

    round: Annotated[int, doc("its number")]
    time_s: Annotated[float, doc("when it ended", "s")]
    devices: Annotated[int, doc("updates in it")]
    fastest_s: Annotated[float, doc("shortest execution time in it", "s")]
    slowest_s: Annotated[float, doc("longest execution time in it", "s")]
    delay_s: Annotated[float, doc("max − min of execution times", "s")]
    cumulative_delay_s: Annotated[
        float, doc("sum of `delay_s` so far; it leaves out the time in which all devices compute", "s")
    ]
    energy_proxy_j: Annotated[
        Joules,
        doc("Σ P·τ so far: compute watts × execution time; without idle devices, links and abandoned work", "J"),
    ]
