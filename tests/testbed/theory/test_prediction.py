"""The command ``theory``, from run folders to what is printed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.history import trace
from testbed.history.trace import Event, Header, Scored, TraceWriter
from tests.testbed.theory.test_iterations import EVENTS, joined, made, sent
from tests.testbed.theory.test_theory import AUDG, PSURDG, SFL, THETA

CONSTANTS = ("--L", "2", "--mu", "1", "--R", "3", "--G", "10", "--phi", "2")
"""With η = 0.1, which is in the profile: those of test_theory."""

PROMPT: list[Event] = [joined("a", 10), sent("a", 1, 0), made(1, 1), sent("a", 2, 1), made(2, 2)]
"""No update is ever late."""


def scored(version: int, loss: float | None, accuracy: float = 0.5) -> Scored:
    metrics = {"accuracy": accuracy} | ({} if loss is None else {"loss": loss})
    return Scored(t=9.0, version=version, made=8.0, metrics=metrics)


def run(folder: Path, strategy: str, *scores: Scored, events: Sequence[Event] = EVENTS, seed: int = 7) -> str:
    """Write the files of a run folder that the command reads."""
    folder.mkdir()
    (folder / "profile.toml").write_text("[training]\nlr = 0.1\n", encoding="utf-8")
    header = Header(
        t=0.0,
        schema=trace.SCHEMA,
        name="n",
        strategy=strategy,
        seed=seed,
        dilation=1.0,
        demand=0.5,
        pressure=None,
        started="2024",
        host="h",
    )
    writer = TraceWriter(folder / "trace.jsonl")
    for event in (header, *events, *scores):
        writer.write(event)
    writer.close()
    return str(folder)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main.main(["theory", *words]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    return output.out


def predicted(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(printed(capsys, *words, "--format", "json"))
    return table


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main.main(["theory", *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert line.startswith("error: ")
    return line


# ---- one run


def test_a_torn_last_line_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "one", "audg", scored(6, 1.5), scored(7, 1.5))
    path = tmp_path / "one" / "trace.jsonl"
    whole = predicted(capsys, folder, *CONSTANTS)
    path.write_bytes(path.read_bytes()[:-5])
    (note,) = [note for note in predicted(capsys, folder, *CONSTANTS)["notes"] if note not in whole["notes"]]
    assert "the last line of the trace is torn" in note


def test_a_packed_trace_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "one", "audg", scored(6, 1.5))
    plain = predicted(capsys, folder, *CONSTANTS)
    path = tmp_path / "one" / "trace.jsonl"
    path.with_name("trace.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert predicted(capsys, folder, *CONSTANTS) == plain
    assert predicted(capsys, f"{folder}/trace.jsonl.gz", *CONSTANTS) == plain


def test_one_run_has_both_bounds_from_its_own_delays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = predicted(capsys, run(tmp_path / "one", "audg", scored(6, 1.5)), *CONSTANTS)
    (figures,) = table["runs"]
    assert (figures["versions"], figures["devices"]) == (6, 3)
    assert figures["mean_heard"] == pytest.approx(5 / 6)
    assert {name: bound["value"] for name, bound in figures["bounds"].items()} == {
        "sfl": pytest.approx(SFL),
        "audg": pytest.approx(AUDG),
        "psurdg": pytest.approx(PSURDG),
    }
    assert figures["delays"][2] == {
        "device": "c",
        "samples": 100,
        "weight": 0.25,
        "heard": 0,
        "tau": [2.5, 55 / 6, 37.5],
        "max_tau": 5,
    }
    assert figures["constants"] == {"L": 2, "mu": 1, "R": 3, "G": 10, "phi": 2, "eta": 0.1}
    assert figures["score"] == {"version": 6, "loss": 1.5, "accuracy": 0.5}
    assert table["predicted"] == {
        "winner": "psurdg",
        "theta": pytest.approx(THETA),
        "audg": pytest.approx(AUDG),
        "psurdg": pytest.approx(PSURDG),
    }
    assert (table["measured"], table["agree"], table["notes"]) == (None, None, [])


def test_one_run_is_shown_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "one", "psurdg")
    text = printed(capsys, folder, *CONSTANTS)
    assert text.startswith(f"{folder}: psurdg, T = 6 versions, N = 3 devices, E|I_t| = 0.8333, η = 0.1, λ: samples\n")
    rows = [line.split() for line in text.splitlines()]
    assert ["b", "200", "0.5", "2", "1", "1.667", "3", "2"] in rows
    assert ["bound", "10.83", "133.3", "63.27"] in rows
    assert "PDD (45) = 109.4" in text
    assert "predicted: PSURDG (its bound 63.27 is below AUDG's 133.3; Θ = -70.01)\n" in text
    assert "measured" not in text


def test_a_device_whose_name_looks_like_markup_is_shown_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [joined("[red]a[/]", 10), sent("[red]a[/]", 1, 0), made(1, 1)]
    assert "[red]a[/]" in printed(capsys, run(tmp_path / "one", "audg", events=events), *CONSTANTS)


def test_without_delays_a_tie_is_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, run(tmp_path / "one", "audg", events=PROMPT), *CONSTANTS)
    # 9/(2·0.1·2) + 4/4·30
    assert "predicted: a tie (both bounds are 52.5)\n" in text


def test_the_command_line_wins_over_the_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = predicted(capsys, run(tmp_path / "one", "audg"), *CONSTANTS, "--eta", "0.2", "--weights", "equal")
    (figures,) = table["runs"]
    assert figures["constants"]["eta"] == 0.2
    assert figures["bounds"]["sfl"]["terms"]["start"] == pytest.approx(3.75)
    assert [row["weight"] for row in figures["delays"]] == [1 / 3] * 3
    assert figures["tau"][0] == pytest.approx(1.5)


def test_weights_are_those_that_the_strategy_aggregated_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(tmp_path / "one", "audg")
    profile = 'training = { lr = 0.1 }\nstrategy = { name = "audg", interval = 1.0, weighting = "equal" }\n'
    (tmp_path / "one" / "profile.toml").write_text(profile, encoding="utf-8")
    assert predicted(capsys, folder, *CONSTANTS)["runs"][0]["weights"] == "equal"
    assert predicted(capsys, folder, *CONSTANTS, "--weights", "samples")["runs"][0]["weights"] == "samples"


def test_a_given_learning_rate_needs_no_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "one", "audg")
    (tmp_path / "one" / "profile.toml").unlink()
    assert predicted(capsys, folder, *CONSTANTS, "--eta", "0.1")["predicted"]["winner"] == "psurdg"


def test_a_learning_rate_that_the_profile_does_not_have_is_the_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(tmp_path / "one", "audg")
    (tmp_path / "one" / "profile.toml").write_text("seed = 1\n", encoding="utf-8")
    assert predicted(capsys, folder, *CONSTANTS)["runs"][0]["constants"]["eta"] == 0.05


def test_the_model_fits_a_strategy_without_intervals_only_loosely(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, run(tmp_path / "one", "fedasync"), *CONSTANTS)
    assert "note: fedasync has a pace of its own" in text
    assert "fits this run only loosely" in text


def test_jobs_of_many_steps_need_another_g(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = trace.Dispatched(t=0.0, device="a", ticket=9, version=6, steps=10)
    (note,) = predicted(capsys, run(tmp_path / "one", "audg", events=[*EVENTS, long]), *CONSTANTS)["notes"]
    assert note.startswith("jobs have up to 10 local steps, the paper's have one")


def test_a_misprint_that_would_change_the_winner_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # L = μ: Θ = −(N − |I|)·[…] is below 0; with L instead of L − μ, η²G²/2·1.375 > 3/2·0.01
    constants = ("--L", "1", "--mu", "1", "--R", "0.1", "--G", "10", "--phi", "0")
    table = predicted(capsys, run(tmp_path / "one", "audg"), *constants)
    assert table["runs"][0]["theta"] < 0 < table["runs"][0]["theta_as_printed"]
    assert any("prints Θ with L instead of L − μ" in note for note in table["notes"])


# ---- two runs


def test_two_runs_have_each_bound_from_their_own_delays_in_any_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = run(tmp_path / "once", "audg", scored(2, 0.75, 0.9), events=PROMPT)
    again = run(tmp_path / "again", "psurdg", scored(6, 1.5, 0.25))
    for folders in ((once, again), (again, once)):
        table = predicted(capsys, *folders, *CONSTANTS)
        assert [each["folder"] for each in table["runs"]] == list(folders)
        # 52.5 from its own delays; with those of the other run it would be 133.3
        assert table["predicted"] == {
            "winner": "audg",
            "audg": pytest.approx(52.5),
            "psurdg": pytest.approx(PSURDG),
            "difference": pytest.approx(PSURDG - 52.5),
        }
        assert table["measured"] == {
            "winner": "audg",
            "audg": {"version": 2, "loss": 0.75, "accuracy": 0.9},
            "psurdg": {"version": 6, "loss": 1.5, "accuracy": 0.25},
        }
        assert table["agree"] is True


def pair(tmp_path: Path, audg: Sequence[Scored], psurdg: Sequence[Scored]) -> tuple[str, str]:
    """Write two runs for which PSURDG is the predicted winner."""
    return run(tmp_path / "once", "audg", *audg), run(tmp_path / "again", "psurdg", *psurdg)


def test_a_prediction_that_holds_agrees_with_the_measurement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, *pair(tmp_path, [scored(6, 1.5, 0.25)], [scored(5, 0.75, 0.875)]), *CONSTANTS)
    assert "predicted: PSURDG (its bound 63.27 is below AUDG's 133.3; PSURDG − AUDG = -70.01)\n" in text
    assert (
        "measured: PSURDG has the lower final loss (AUDG: loss 1.5, accuracy 0.250, version 6;"
        " PSURDG: loss 0.75, accuracy 0.875, version 5)\nprediction and measurement agree\n"
    ) in text
    rows = [line.split() for line in text.splitlines()]
    assert ["bound", "10.83", "133.3"] in rows  # each run shows its own strategy
    assert ["bound", "10.83", "63.27"] in rows
    assert "differ in" not in text


def test_a_prediction_that_fails_disagrees_with_the_measurement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, *pair(tmp_path, [scored(6, 0.5)], [scored(6, 0.75)]), *CONSTANTS)
    assert "measured: AUDG has the lower final loss" in text
    assert "prediction and measurement disagree\n" in text


def test_the_score_of_the_last_version_counts_and_not_the_last_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = [scored(6, 0.5), scored(2, 9.0)]
    assert predicted(capsys, *pair(tmp_path, late, [scored(6, 0.75)]), *CONSTANTS)["measured"]["winner"] == "audg"


UNDECIDED = {
    "a tie": ([scored(6, 0.5)], [scored(6, 0.5)], "measured: a tie, the final losses are the same"),
    "no score": ([], [scored(6, 0.5)], "no winner, a final loss is missing (AUDG: no version was scored"),
    # an earlier loss would hide that the run has diverged since
    "no loss": ([scored(5, 0.1), scored(6, None)], [scored(6, 0.5)], "(AUDG: no finite loss, accuracy 0.500"),
}


@pytest.mark.parametrize("case", UNDECIDED)
def test_a_measurement_without_a_winner_is_explained(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audg, psurdg, fragment = UNDECIDED[case]
    text = printed(capsys, *pair(tmp_path, audg, psurdg), *CONSTANTS)
    assert fragment in text
    assert "prediction and measurement cannot be compared" in text


def test_other_differences_between_two_runs_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once = run(tmp_path / "once", "audg", seed=8)
    again = run(tmp_path / "again", "psurdg", events=PROMPT)
    profile = 'training = { lr = 0.25 }\nstrategy = { name = "psurdg", interval = 2.0, weighting = "equal" }\n'
    (tmp_path / "again" / "profile.toml").write_text(profile, encoding="utf-8")
    text = printed(capsys, once, again, *CONSTANTS)
    for fragment in (
        "seeds: 8 and 7",
        "devices: 3 and 1",
        "versions: 6 and 2",
        "learning rates: 0.1 and 0.25",
        "weights: samples and equal",
        "intervals: None and 2.0",
    ):
        assert f"note: the runs differ in {fragment}" in text


# ---- wrong input


def test_two_runs_must_be_one_of_each_strategy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once, again = run(tmp_path / "once", "audg"), run(tmp_path / "again", "fedavg")
    line = refused(capsys, once, again, *CONSTANTS)
    assert f"{once} ran audg and {again} ran fedavg" in line
    assert "--strategy psurdg" in line


WRONG = {
    "μ above L": (["--mu", "2.5"], ["command line: --mu is 2.5", "at most L, which is 2"]),
    "negative L": (["--L", "-1"], ["--L is -1.0", "above 0"]),
    "negative R": (["--R", "-1"], ["--R is -1.0", "at least 0"]),
    "negative G": (["--G", "-0.5"], ["--G is -0.5", "at least 0"]),
    "negative φ": (["--phi", "-2"], ["--phi is -2.0", "at least 0"]),
    "no η": (["--eta", "0"], ["--eta is 0.0", "above 0"]),
    "not a number": (["--phi", "nan"], ["--phi is nan", "finite"]),
    "endless": (["--G", "inf"], ["--G is inf", "finite"]),
    "a word": (["--R", "far"], ["--R is 'far'", "a number, at least 0"]),
    "too large": (["--R", "1e200"], ["--R is 1e+200", "at most 1e+30"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_constants_are_one_line_and_exit_code_2(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, fragments = WRONG[case]
    line = refused(capsys, run(tmp_path / "one", "audg"), *CONSTANTS, *options)
    for fragment in fragments:
        assert fragment in line


def test_missing_constants_are_named_with_their_meaning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, run(tmp_path / "one", "audg"), "--L", "1", "--R", "5", "--G", "2")
    assert line.startswith("error: command line: --mu, --phi must be given")
    assert "mu: μ, strong convexity" in line
    assert "phi: φ, heterogeneity (not a device's φ_i): ‖w_i* − w*‖ ≤ φ" in line
    assert "eta" not in line


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{tmp_path}/absent: there is no such run folder" in refused(capsys, f"{tmp_path}/absent", *CONSTANTS)


def test_a_folder_without_a_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{tmp_path}: has no trace.jsonl" in refused(capsys, str(tmp_path), *CONSTANTS)


def test_a_trace_without_a_version_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "one", "audg", events=EVENTS[:7])
    assert f"{folder}/trace.jsonl: has no version" in refused(capsys, folder, *CONSTANTS)


def test_a_file_that_is_not_a_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "one", "audg")
    (tmp_path / "one" / "trace.jsonl").write_text("nonsense\n", encoding="utf-8")
    line = refused(capsys, folder, *CONSTANTS)
    assert f"{folder}/trace.jsonl, line 1: JSON is malformed" in line
    assert "choose another run" in line


def test_an_unknown_learning_rate_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "one", "audg")
    (tmp_path / "one" / "profile.toml").unlink()
    line = refused(capsys, folder, *CONSTANTS)
    assert f"{folder}/profile.toml: no such file" in line
    assert "--eta" in line


def test_a_wrong_learning_rate_is_refused_with_its_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "one", "audg")
    (tmp_path / "one" / "profile.toml").write_text("[training]\nlr = -1\n", encoding="utf-8")
    assert f"{folder}/profile.toml: training.lr is -1.0; it must be above 0" in refused(capsys, folder, *CONSTANTS)


def test_the_help_has_the_meaning_of_each_constant(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main.main(["theory", "--help"])
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for fragment in (
        "smoothness",
        "strong convexity",
        "‖w − w*‖ ≤ R",
        "‖∇f_i(w)‖ ≤ G",
        "‖w_i* − w*‖ ≤ φ",
        "learning rate",
    ):
        assert fragment in text
