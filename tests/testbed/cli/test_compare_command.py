"""``compare`` from the command line: its output, its notes, and wrong input."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis import energy
from testbed.cli import main
from testbed.comparison.curves import AXES
from tests.testbed.comparison.written import BYTES, FAST, SLOW, compared, six, write
from tests.testbed.traces.files import printed

MODEL = f"joules are not measured; their model: {energy.MODEL}"


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return six(tmp_path)


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are slow to draw and have tests of their own."""
    monkeypatch.setattr("testbed.comparison.compare_figures.draw", lambda table, runs: iter(()))


def test_groups_have_means_intervals_and_the_number_that_reached_the_target(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = compared(capsys, tmp_path / "out", *folders, "--target", "0.6")
    fast, slow = table["groups"]
    assert (fast["label"], fast["runs"], fast["seeds"], fast["reached"]) == ("fedasync", 3, [1, 2, 3], 3)
    assert (slow["label"], slow["runs"], slow["reached"]) == ("fedavg", 3, 2)
    values = {key: found["mean"] for key, found in slow["values"].items()}
    assert values == {
        "final": pytest.approx((0.625 + 0.625 + 0.5) / 3),
        "best": pytest.approx((0.625 + 0.625 + 0.5) / 3),
        "seconds_to_target": 6.0,
        "joules_to_target": pytest.approx(6.0),
        "bytes_to_target": 6 * BYTES,
        "energy_j": pytest.approx((6 + 6 + 4) / 3),
        "wasted_j": 0.0,
        "versions": pytest.approx(8 / 3),
        "updates_per_second": 0.5,
        "mean_staleness": pytest.approx((0.667 + 0.667 + 0.5) / 3),
    }
    assert slow["values"]["final"]["count"] == 3
    assert slow["values"]["seconds_to_target"]["count"] == 2  # the mean is over those that reached it
    assert fast["values"]["seconds_to_target"] == {"count": 3, "mean": 4.0, "half": 0.0, "low": 4.0, "high": 4.0}
    assert (
        "5 of 6 runs reached accuracy 0.6; the means of seconds, joules and bytes to it are over these runs only"
        in table["notes"][-2]
    )


def test_strategies_are_compared_in_pairs_of_seeds(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = compared(capsys, tmp_path / "out", *folders, "--target", "0.6")
    seconds, _, final = table["paired"]
    assert (seconds["first"], seconds["second"], seconds["quantity"]) == ("fedasync", "fedavg", "seconds_to_target")
    assert (seconds["pairs"], seconds["mean"], seconds["p"], seconds["smallest_p"]) == (2, -2.0, 0.5, 0.5)
    assert (final["pairs"], final["p"], final["smallest_p"]) == (3, 0.25, 0.25)
    assert table["paired_by"][0].startswith("pairs are runs with the same seed and fleet")
    assert table["notes"][-1].startswith("with 3 pairs, p cannot be below 0.25, however different two strategies are; ")


def test_replays_are_paired_by_their_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = write(tmp_path / "recorded", "fedasync", FAST)
    replayed = write(tmp_path / "replayed", "fedavg", SLOW, replays=recorded)
    table = compared(capsys, tmp_path / "out", recorded, replayed)
    assert {row["by"] for row in table["paired"]} == {"trace"}
    assert table["paired_by"] == ["pairs are runs with the same seed that replay the same recorded run"]


def test_by_default_files_go_to_a_new_folder_here(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    output = printed(capsys, "compare", *folders)
    [out] = (tmp_path / "here").iterdir()
    assert out.name.startswith("compare-20")
    assert f"page: {out.name}/compare.html" in output


@pytest.mark.parametrize("columns", [80, 120])
def test_no_number_is_cut_off_on_a_terminal(
    folders: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    output = printed(capsys, "compare", *folders, "--out", tmp_path / "out", "--target", "0.6")
    assert "…" not in output
    lines = output.splitlines()
    row = next(line for line in lines if line.startswith("fedavg "))
    assert row.split()[:2] == ["fedavg", "3"]
    assert ("0.58 ± 0.18" in row) == (columns == 120)
    assert "0.58" in row
    assert "2 of 3" in row
    assert all(len(line) <= columns for line in lines if line.startswith(("strategy", "fed", "diff")))
    assert "6 runs in 2 groups; target: accuracy of at least 0.6 (given)" in lines[0]


def test_one_run_has_no_interval_and_no_pair(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = compared(capsys, tmp_path / "out", folders[0])
    assert table["groups"][0]["values"]["final"] == {"count": 1, "mean": 0.875, "half": None, "low": None, "high": None}
    assert (table["paired"], table["paired_by"], table["notes"]) == ([], [], [MODEL])
    assert (tmp_path / "out" / "paired.csv").read_text().count("\n") == 1  # no row of an earlier comparison is left


# ---- notes


def noted(capsys: pytest.CaptureFixture[str], tmp_path: Path, *folders: Path) -> str:
    return "\n".join(compared(capsys, tmp_path / "out", *folders)["notes"])


def test_a_run_without_an_end_is_compared_up_to_its_last_event(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = write(tmp_path / "half", "fedbuff", FAST, ended=False)
    path = half / "trace.jsonl"
    path.write_bytes(path.read_bytes() + b'{"kind":"scored","t":9')
    notes = noted(capsys, tmp_path, *folders, half)
    assert f"{path}, line " in notes
    assert "is torn" in notes
    assert f"{half}: has no end: the run continues or was killed; it is compared up to its last event" in notes


def test_a_run_that_is_named_twice_counts_once(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = os.path.relpath(folders[0] / "trace.jsonl")
    table = compared(capsys, tmp_path / "out", *folders, folders[0], again)
    assert len(table["runs"]) == 6


def test_two_runs_of_one_seed_are_not_independent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = noted(capsys, tmp_path, write(tmp_path / "one"), write(tmp_path / "two"))
    assert "fedavg: 2 runs have seed 1; they are not independent, so the interval is too narrow" in notes


def test_failed_certificates_missing_joules_and_profiles_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (write(tmp_path / str(seed), seed=seed, watts=False) for seed in (1, 2))
    (one / "fidelity.json").write_text(json.dumps({"verdict": "FAIL", "invariants": []}))
    (two / "profile.toml").unlink()
    notes = noted(capsys, tmp_path, one, two)
    assert "the certificate of 1 of 2 runs is FAIL" in notes
    assert "no joules: no run has a power model for every device" in notes
    assert f"only the strategy's parameters are known: {two}" in notes
    assert "proxy" not in (tmp_path / "out" / "compare.md").read_text()


def test_runs_without_pairs_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = noted(capsys, tmp_path, write(tmp_path / "x", "x", seed=1), write(tmp_path / "y", "y", seed=2))
    assert "no pairs: no two runs of different groups have the same seed and fleet" in notes


def test_with_enough_pairs_the_number_of_tests_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [
        write(tmp_path / f"{strategy}{seed}", strategy, seed=seed) for strategy in ("x", "y") for seed in range(6)
    ]
    assert noted(capsys, tmp_path, *folders).endswith(
        "3 tests can give p ≤ 0.05: if all strategies were equal, about 0.15 of them would, by chance"
    )


def test_a_test_with_too_few_pairs_cannot_be_significant_by_chance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = {"x": 6, "y": 6, "z": 3}
    folders = [
        write(tmp_path / f"{strategy}{seed}", strategy, seed=seed)
        for strategy in seeds
        for seed in range(seeds[strategy])
    ]
    assert "3 tests can give p ≤ 0.05: if all strategies were equal, about 0.15" in noted(capsys, tmp_path, *folders)


def test_a_target_that_initial_models_have_already_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learnt, not_learnt = (
        write(tmp_path / str(seed), seed=seed, initial=0.1, scores=(score,)) for seed, score in ((1, 0.3), (2, 0.1))
    )
    notes = noted(capsys, tmp_path, learnt, not_learnt)
    assert "the initial model of 2 of 2 runs already has accuracy 0.1" in notes
    assert "initial model" not in noted(capsys, tmp_path, learnt)


def test_joules_are_called_a_proxy_everywhere(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert MODEL in compared(capsys, tmp_path / "out", *folders)["notes"]
    for name in ("compare.md", "compare.tex", "compare.html"):
        text = (tmp_path / "out" / name).read_text()
        assert MODEL in text
        assert all(f"J (proxy) {what}" in text for what in ("to 0.5", "in total", "wasted"))
    rows = (tmp_path / "out" / "compare.csv").read_text().splitlines()
    assert {row.split(",")[3] for row in rows if "_j," in row or "joules" in row} == {"J (proxy)"}
    assert AXES[1].title == "J (proxy) of the whole fleet"


@pytest.mark.parametrize(
    "odd",
    [
        {"replay": "strict"},
        {"replay": {"trace": 3}},
        {"replay": {"trace": "\0"}},
        {"stop": 3},
        {"task": 3},
        {"stop": {"target_accuracy": "high"}},
        {"stop": {"target_accuracy": [0.5]}},
        {"devices": [[1], []]},
    ],
)
def test_a_malformed_profile_beside_a_trace_is_tolerated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], odd: dict[str, Any]
) -> None:
    assert len(compared(capsys, tmp_path / "out", write(tmp_path / "odd", profile=odd))["runs"]) == 1


# ---- wrong input


def test_runs_that_cannot_be_compared_are_one_line(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    (tmp_path / "empty").mkdir()
    assert "has no trace.jsonl" in printed(capsys, "compare", *folders, tmp_path / "empty", "--out", out, code=2)
    assert "no such run folder" in printed(capsys, "compare", tmp_path / "absent", "--out", out, code=2)
    assert "no run reached" in printed(capsys, "compare", *folders, "--target", "0.9", "--out", out, code=2)
    assert "has no bleu" in printed(capsys, "compare", *folders, "--metric", "bleu", "--out", out, code=2)
    other = write(tmp_path / "other", profile={"task": "other"})
    assert "compare runs of one task" in printed(capsys, "compare", *folders, other, "--out", out, code=2)
    assert not out.exists()


def test_a_folder_that_cannot_be_written_to_is_an_error(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    line = printed(capsys, "compare", *folders, "--out", tmp_path / "file" / "out", code=2)
    assert "cannot be written to" in line


def test_a_packed_trace_and_names_that_look_like_markup_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    folder = write(tmp_path / "[red]", "my_strategy:<b>$x$&_")
    path = folder / "trace.jsonl"
    (folder / "trace.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert "my_strategy:<b>$x$&_" in printed(capsys, "compare", folder, "--out", tmp_path / "out")
    assert r"my\_strategy:$<$b$>$\$x\$\&\_ &" in (tmp_path / "out" / "compare.tex").read_text()
    assert "<b>" not in (tmp_path / "out" / "compare.html").read_text()


def test_help_names_the_other_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["compare", "--help"])
    assert "trace compare" in capsys.readouterr().out
