"""The type of summary.json: the most important figures of a run."""

from __future__ import annotations

from typing import Annotated

import msgspec

from testbed.common.documented import doc, entries
from testbed.host.rapl import HostEnergy
from testbed.runs.results.certificate import Certificate
from testbed.runs.results.replay_result import ReplayCertificate

SCHEMA = 1
"""The schema number of summary.json and meta.json; files of earlier versions have none."""


class MetricRange(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of a run by one metric."""

    last: Annotated[float, doc("score of the last scored version, for each metric", "by task")]
    lowest: Annotated[float, doc("of all scored versions", "by task")]
    highest: Annotated[float, doc("of all scored versions", "by task")]


class CostToReach(msgspec.Struct, frozen=True, kw_only=True):
    """What a run had used when it first reached an accuracy."""

    seconds: Annotated[
        float,
        doc(
            "when the first version with this accuracy was made; for the levels 0.5 to 0.99 and the target, if reached",
            "s",
        ),
    ]
    joules: Annotated[float | None, doc("energy of the fleet up to then", "J")]
    bytes: Annotated[int, doc("transferred up to then", "bytes")]


class ComputingSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """The computing of throttled devices."""

    asked_s: Annotated[float, doc("asked of all finished jobs on throttled devices", "s")]
    obtained_s: Annotated[float, doc("that these jobs computed by the clock", "s")]
    slowest: Annotated[str, doc("the device with the largest ratio of obtained to asked seconds")]
    slowest_ratio: Annotated[float, doc("that ratio")]


class FleetEnergy(msgspec.Struct, frozen=True, kw_only=True):
    """The energy of the whole fleet by the power models of its devices."""

    model: Annotated[str, doc("the kind of figure; `energy` is null if a device has no power model")]
    total_j: Annotated[float, doc("of the whole fleet", "J")]
    by_phase_j: Annotated[
        dict[str, float],
        doc("idle, suspended, compute, transmit, receive, as in `devices.csv`", "J", key="phase"),
    ]
    wasted_j: Annotated[
        float, doc("for downloads, computing and uploads of tickets whose update is in no version", "J")
    ]
    wasted_by_fate_j: Annotated[
        dict[str, float],
        doc("parts of that: rejected, lost, superseded, unfinished (in flight at the end)", "J", key="fate"),
    ]
    lost_transfers_j: Annotated[float, doc("for lost transfers, of all tickets", "J")]
    joules_per_update: Annotated[float | None, doc("`total_j` ÷ `applied`", "J")]


class ContributionFairness(msgspec.Struct, frozen=True, kw_only=True):
    """How evenly the devices contributed to the model."""

    jain: Annotated[float, doc("Jain's index of the devices' contributions; 1: all are equal", "1/n to 1")]
    gini: Annotated[float, doc("Gini coefficient of the contributions; 0: all are equal", "0 to 1")]


class FinalModelDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """The broadcast of the final model."""

    on: Annotated[
        int, doc("devices that have received it; `final_model` is null if the strategy does not broadcast it")
    ]
    of: Annotated[int, doc("devices that it was sent to")]
    seconds: Annotated[float, doc("from the first dispatch until the last of these devices had it", "s")]


class RoundSums(msgspec.Struct, frozen=True, kw_only=True):
    """The sums over all rounds."""

    count: Annotated[int, doc("rows of `rounds.csv`; `rounds` is null if the strategy has no rounds")]
    cumulative_delay_s: Annotated[float, doc("of the last row", "s")]
    energy_proxy_j: Annotated[float | None, doc("of the last row", "J")]


class ModelOutOfRange(msgspec.Struct, frozen=True, kw_only=True):
    """The norm of the model was a thousand times that of the first model, or not finite."""

    count: Annotated[
        int,
        doc("how often its norm had grown by a further factor of 1000; `out_of_range` is null if it never had"),
    ]
    time_s: Annotated[float, doc("when that was first noticed", "s")]
    version: Annotated[int, doc("the version then")]
    device: Annotated[str | None, doc("the device with the largest update before it; null if none is known")]
    norm: Annotated[float | None, doc("of the model at the last of these times; null if it was not finite")]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The most important figures of a run (summary.json)."""

    schema: Annotated[int, doc("of this file; missing in files of earlier versions")] = SCHEMA
    name: Annotated[str | None, doc("of the experiment")]
    strategy: Annotated[str | None, doc("its name")]
    seed: Annotated[int | None, doc("of batches and faults, and of what has no seed of its own")]
    devices: Annotated[int, doc("that joined")]
    seconds: Annotated[float, doc("length of the run", "s")]
    host_seconds: Annotated[float, doc("length of the run on this host", "host s")]
    dilation: Annotated[float, doc("host seconds per emulated second")]
    clock: Annotated[str, doc("wall, or virtual: the run was computed, and nothing was measured")] = "wall"
    stopped: Annotated[str, doc("why the run ended")]
    versions: Annotated[int, doc("that were made")]
    model_sha256: Annotated[
        str | None, doc("SHA-256 of the final model's numbers; null if the run did not end by itself")
    ] = None
    dispatched: Annotated[int, doc("tickets = applied + rejected + lost + superseded + delivered + in_flight")]
    applied: Annotated[int, doc("updates that became part of a version")]
    rejected: Annotated[int, doc("updates that the strategy or the engine rejected")]
    lost: Annotated[int, doc("tickets whose device left or gave up the upload")]
    superseded: Annotated[int, doc("tickets that a newer one replaced before they ended")]
    delivered: Annotated[int, doc("final models that arrived, if the strategy broadcasts them")]
    in_flight: Annotated[int, doc("tickets that had not ended at the end of the run")]
    resent: Annotated[int, doc("tickets that were sent again because their download was lost or the run was resumed")]
    resumed: Annotated[int, doc("how often the run was resumed from a checkpoint")] = 0
    ignored: Annotated[int, doc("updates and requests for grants whose ticket had already ended")]
    refused: Annotated[
        int,
        doc(
            "messages that were malformed, too many or from unknown senders; connections that were rejected or cut off"
        ),
    ]
    clipped: Annotated[int, doc("updates that were scaled down to `aggregator.clip`")] = 0
    out_of_range: ModelOutOfRange | None = None
    scripted: Annotated[int, doc("scripted events that took effect, counted for each device")] = 0
    restarts: Annotated[
        int, doc("how often a device was forked again after an unplanned death (`presence.restart`)")
    ] = 0
    scores: Annotated[dict[str, MetricRange], entries("metric")]
    final_accuracy: Annotated[float | None, doc("of the last scored version", "0 to 1")]
    best_accuracy: Annotated[float | None, doc("the highest of all scored versions", "0 to 1")]
    target_accuracy: Annotated[float | None, doc("`stop.target_accuracy` of the profile", "0 to 1")]
    to_accuracy: Annotated[dict[str, CostToReach], entries("level")]
    mean_staleness: Annotated[float | None, doc("of all updates that became part of a version", "versions")]
    max_staleness: Annotated[int | None, doc("of these", "versions")]
    updates_per_second: Annotated[float | None, doc("`applied` ÷ `seconds`", "1/s")]
    reasons: Annotated[
        dict[str, int],
        doc("how often updates were rejected or lost for this reason; the ten most frequent", key="reason"),
    ]
    refusals: Annotated[
        dict[str, int],
        doc(
            "how often messages and connections were refused for this reason; the ten most frequent",
            key="reason",
        ),
    ] = {}
    computing: ComputingSeconds | None
    abandoned_s: Annotated[float, doc("of computing that was discarded because the strategy sent a newer model", "s")]
    bytes_up: Annotated[int, doc("sent by devices, including lost transfers", "bytes")]
    bytes_down: Annotated[int, doc("sent to devices, including lost transfers", "bytes")]
    energy_j: Annotated[float | None, doc("the same as `energy.total_j`", "J")]
    wasted_j: Annotated[float | None, doc("the same as `energy.wasted_j`", "J")]
    energy: FleetEnergy | None
    contribution: ContributionFairness | None
    final_model: FinalModelDelivery | None
    host_energy: HostEnergy | None = None
    rounds: RoundSums | None = None
    fidelity: Annotated[
        Certificate | None,
        doc("as in `fidelity.json`; null if the figures were computed from a trace without that file"),
    ] = None
    replay: Annotated[ReplayCertificate | None, doc("as in `replay.json`; null if the run is no replay")] = None
    torn_line: Annotated[int | None, doc("number of the trace's last line; null unless a crash has torn it")] = None
