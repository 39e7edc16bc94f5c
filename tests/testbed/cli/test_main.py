"""The command line up to the point where processes are started; the rest is in tests/live."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.cli import main
from tests.testbed.examples import MINIMAL, write_profile

KNOWN = {
    "strategies": {"asyncfeded", "fedasync", "fedavg"},
    "devices": {"rpi3bplus", "rpi4", "rpi5", "jetson-nano", "phone-low", "phone-mid", "phone-high", "host"},
    "links": {"ethernet", "wifi", "lte", "5g", "3g", "none"},
    "tasks": {
        "digits",
        "mnist",
        "fashion_mnist",
        "cifar10",
        "femnist",
        "shakespeare",
        "synthetic",
        "regression",
        "svm",
    },
    "splits": {"iid", "dirichlet", "sizes", "sorted", "labels", "power-law", "natural"},
}
DETAIL = {
    "strategies": "gamma_bar",
    "devices": "0.6 ms per sample",
    "links": "23.9 Mbit/s",
    "tasks": "small-cnn",
    "splits": "identical",
}


@pytest.fixture(autouse=True)
def own_import_path_and_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main.main(words) == 0
    output = capsys.readouterr()
    assert output.err == ""
    return output.out


# ---- list


@pytest.mark.parametrize("what", KNOWN)
def test_a_list_has_one_line_for_each_name(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "list", what).splitlines()
    assert KNOWN[what] <= {line.split()[0] for line in lines}
    assert all(len(line.split()) > 1 for line in lines)
    assert not any(DETAIL[what] in line for line in lines)


@pytest.mark.parametrize("what", KNOWN)
def test_a_verbose_list_has_parameters_or_figures_and_sources(
    what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = printed(capsys, "list", what, "-v")
    assert DETAIL[what] in text
    assert ("source: " in text) == (what in ("devices", "links"))


@pytest.mark.parametrize("verbose", [[], ["-v"]])
@pytest.mark.parametrize("what", KNOWN)
def test_a_list_as_json_has_everything(what: str, verbose: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(printed(capsys, "list", what, "--format", "json", *verbose))
    assert KNOWN[what] <= {row["name"] for row in rows}
    assert all(row["title"] for row in rows)
    assert DETAIL[what] in json.dumps(rows)


def test_a_parameter_is_listed_with_default_range_and_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(printed(capsys, "list", "tasks", "--format", "json"))
    (synthetic,) = [row for row in rows if row["name"] == "synthetic"]
    assert ["alpha", "1", "at least 0", "how much the devices' models differ"] in synthetic["parameters"]


# ---- doctor


def diagnosis(capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]]]:
    code = main.main(["doctor", "--format", "json"])
    return code, json.loads(capsys.readouterr().out)["findings"]


def test_a_host_with_everything_needed_passes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr("os.getpriority", lambda which, who: 0)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=8 << 30))
    code, rows = diagnosis(capsys)
    assert code == 0
    assert {"cores", "affinity", "memory", "cgroup", "schedstat", "RAPL"} <= {row["what"] for row in rows}
    assert all(row.keys() == {"what", "ok", "found", "means"} for row in rows)


def test_a_host_that_lacks_something_needed_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    code, rows = diagnosis(capsys)
    assert code == 1
    assert [row["ok"] for row in rows if row["what"] == "cores"] == [False]


def test_a_diagnosis_is_shown_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    main.main(["doctor"])
    text = capsys.readouterr().out
    assert all(what in text for what in ("cores", "affinity", "memory", "cgroup", "schedstat", "RAPL"))
    assert "not calibrated: run_testbed.py doctor --calibrate" in text


# ---- wrong input


def refused(capsys: pytest.CaptureFixture[str], out: Path, *words: str) -> str:
    """Return the one line on standard error; nothing else is printed, and no file is written."""
    assert main.main([*words, "--out", str(out)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert not out.exists()
    (line,) = output.err.splitlines()
    assert line.startswith("error: ")
    return line


WRONG_OPTIONS = {
    "unknown strategy": (["--strategy", "fedavgg"], ["strategy is 'fedavgg'", "did you mean 'fedavg'"]),
    "no such module": (
        ["--strategy", "edgebed_absent:Strategy"],
        ["strategy is 'edgebed_absent:Strategy'", "No module named"],
    ),
    "unknown parameter": (
        ["--strategy", "asyncfeded", "--set", "strategy.lamm=1"],
        ["strategy.lamm is not a known key", "did you mean 'lam'"],
    ),
    "parameter out of range": (
        ["--strategy", "asyncfeded", "--set", "strategy.lam=0"],
        ["strategy.lam is 0", "above 0"],
    ),
    "parameter of the wrong type": (
        ["--strategy", "asyncfeded", "--set", "strategy.k_max=many"],
        ["strategy.k_max is 'many'", "a whole number"],
    ),
    "unknown task": (
        ["--set", "task=digts", "--set", "devices[0].profile=host"],
        ["task is 'digts'", "did you mean 'digits'"],
    ),
    "task's parameter out of range": (["--set", "task.split.alpha=-1"], ["task.split.alpha is -1", "above 0"]),
    "negative seed": (["--seed", "-1"], ["seed is -1", "at least 0"]),
    "no time": (["--seconds", "0"], ["stop.seconds is 0", "above 0"]),
    "endless time": (["--seconds", "inf"], ["stop.seconds is inf", "finite"]),
    "a word for a dilation": (["--dilation", "fast"], ["--dilation", "dilation is 'fast'", "auto"]),
    "no dilation": (["--dilation", "0"], ["--dilation", "dilation is 0", "at least 1e-06"]),
    "endless dilation": (["--dilation", "inf"], ["dilation is inf", "finite"]),
    "a setting of no form": (["--set", "seed"], ["--set seed", "key=value"]),
    "a name with line breaks": (["--set", 'name="a\\nb"'], ["name is 'a\\nb'"]),
    "a key with line breaks": (["--set", "a\nb=1"], ["a b is not a known key"]),
}


@pytest.mark.parametrize("case", WRONG_OPTIONS)
def test_wrong_options_are_one_line_and_exit_code_2(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, fragments = WRONG_OPTIONS[case]
    line = refused(capsys, tmp_path / "out", "run", str(write_profile(tmp_path, MINIMAL)), *options)
    for fragment in fragments:
        assert fragment in line


def test_a_wrong_profile_is_one_line_that_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_profile(tmp_path, "seed = = 1")
    assert refused(capsys, tmp_path / "out", "run", str(path)).startswith(f"error: {path}: not valid TOML")


def test_the_word_run_may_be_left_out_before_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "absent.toml"
    assert f"{path}: no such file" in refused(capsys, tmp_path / "out", str(path))


def test_a_shipped_experiment_is_found_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = refused(capsys, tmp_path / "out", "quickstart.toml", "--seed", "-1")
    assert line == "error: --seed: seed is -1; it must be at least 0 and below 9.22337e+18"
    write_profile(tmp_path, "seed = = 1", "quickstart.toml")
    assert "not valid TOML" in refused(capsys, tmp_path / "out", "quickstart.toml")


def test_a_name_too_long_for_a_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot be read: " in refused(capsys, tmp_path / "out", "run", f"{'x' * 300}.toml")


def test_a_fleet_that_is_too_large_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1 << 30))
    path = write_profile(tmp_path, MINIMAL)
    line = refused(capsys, tmp_path / "out", "run", str(path), "--set", "devices[0].count=10000")
    assert "use at most 27 devices" in line


def test_an_out_folder_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_profile(tmp_path, MINIMAL)
    assert f"--out {path}/runs: cannot be written to" in refused(capsys, path / "runs", "run", str(path))


def test_a_plan_of_wrong_input_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_profile(tmp_path, MINIMAL)
    assert main.main(["plan", str(path), "--seed", "-1"]) == 2
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "error: --seed: seed is -1; it must be at least 0 and below 9.22337e+18\n")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["fly"],
        ["list", "planets"],
        ["run"],
        ["plan"],
        ["run", "x.toml", "--seed", "one"],
        ["plan", "x.toml", "--out", "y"],
    ],
)
def test_wrong_words_exit_with_code_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main.main(words)
    assert caught.value.code == 2
    assert "usage: " in capsys.readouterr().err


# ---- the terminal


@pytest.mark.parametrize("text", ['"\\u001b[31mkey" = 1', 'strategy = "\\u001b[31m"', '["\\u009b2J".x]\ny = 1'])
def test_keys_and_values_of_a_profile_cannot_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = tmp_path / "hostile.toml"
    path.write_text(text, encoding="utf-8")
    assert main.main(["plan", str(path)]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert not set(errors) & set("\x1b\x9b")
