"""The type of replay.json: how exactly a replay repeated the recorded run. ``testbed.replay`` computes it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from testbed.common.documented import doc, entries


class DelayErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Differences between the delays of a replay and the recorded ones."""

    count: Annotated[int, doc("delays of this kind in both runs; the entry of a kind without any is null")]
    p50_s: Annotated[float, doc("median of |obtained − recorded|", "s")]
    p99_s: Annotated[float, doc("99th percentile of |obtained − recorded|", "s")]
    max_s: Annotated[float, doc("largest |obtained − recorded|", "s")]


class ReplayCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """How exactly a replay repeated the recorded run (replay.json)."""

    trace: Annotated[str, doc("the recorded trace")]
    mode: Annotated[str, doc("`replay.mode` of the profile: schedule or strict")]
    problem: Annotated[str | None, doc("why the recording cannot be read any more; then all other keys are null")] = (
        None
    )
    end: Annotated[str | None, doc("`replay.end` of the profile: what follows a recording that is over")] = None
    use: Annotated[str | None, doc("`replay.use` of the profile: recorded seconds of computing, asked or obtained")] = (
        None
    )
    delays: Annotated[dict[str, DelayErrors | None], entries("kind")] = {}
    beyond_the_recording: Annotated[int | None, doc("delays of jobs that were not recorded")] = None
    arrivals: Annotated[int | None, doc("updates that arrived in the replay")] = None
    arrivals_recorded: Annotated[int | None, doc("updates that arrived in the recorded run")] = None
    arrivals_common: Annotated[int | None, doc("updates that arrived in both")] = None
    arrivals_in_order: Annotated[
        float | None, doc("share of these in the recorded order: the longest increasing subsequence", "0 to 1")
    ] = None
    transfers_common: Annotated[int | None, doc("attempts at a transfer in both runs")] = None
    losses_differ: Annotated[int | None, doc("of these, lost in one run and not in the other")] = None
    same_staleness: Annotated[bool | None, doc("whether the sequence of staleness is the same")] = None
    same_losses: Annotated[
        bool | None,
        doc("whether the training losses of all updates are the same: only with the same models and batches"),
    ] = None
    same_versions: Annotated[bool | None, doc("whether the number of versions is the same")] = None
    same_arrivals: Annotated[bool | None, doc("whether the sequence of arrivals is the same")] = None
    same_model: Annotated[bool | None, doc("whether the final models are equal, bit by bit; null: one is missing")] = (
        None
    )
    model: Annotated[str | None, doc("SHA-256 of the replay's final model")] = None
