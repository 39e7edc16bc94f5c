"""``trace import``: published trace files become profiles that an experiment can name."""

from __future__ import annotations

import pickle
import tomllib
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.loading import profile_files, profile_loader
from testbed.profile.schema import DeviceProfile, LinkProfile
from testbed.trace_tools import importing
from testbed.traces import availability, rate
from testbed.traces.formats import KINDS
from tests.testbed.traces.files import printed, write

BUS = "trace,t_s,mbps\nbus 1,0,9\nbus 1,1,4\n7,0,9\n7,2,6\nbus 2,0,9\nbus 2,1,5\n"
CLIENTS = {str(i): {"computation": 10.0 * i, "communication": 1000.0 * i} for i in range(1, 6)}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")


def toml(path: str) -> dict[str, Any]:
    return tomllib.loads(Path(path).read_text(encoding="utf-8"))


def files(folder: str = "mine") -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def link_of(path: str) -> LinkProfile:
    """The link as an experiment loads it."""
    experiment = Path("experiment.toml")
    experiment.write_text(
        f'strategy = "fedavg"\ndevices = [{{ profile = "rpi4", link = "{path}" }}]\n', encoding="utf-8"
    )
    link = profile_loader.load(experiment).devices[0].link
    assert isinstance(link, LinkProfile)
    return link


# ---- written files


def test_a_link_of_two_files_becomes_a_profile_that_an_experiment_can_name(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("lte.down"), "0\n500\n1000\n")
    write(Path("lte.up.gz"), "2000\n")
    output = printed(
        capsys, "trace", "import", "mahimahi", "lte.down", "--up", "lte.up.gz", "--delay", "0.02", "--out", "mine"
    )
    assert files() == ["lte.down.csv", "lte.toml", "lte.up.csv"]
    assert 'devices = [{ profile = "rpi4", link = "mine/lte.toml" }]' in output
    table = toml("mine/lte.toml")
    assert table["title"] == "lte (Mahimahi link trace)"
    assert "lte.down: down 1 s, mean 0.036 Mbit/s" in table["source"]
    assert "delay: given on import" in table["source"]
    assert table["down"] == {"trace": "lte.down.csv", "delay": 0.02}
    assert table["up"] == {"trace": "lte.up.csv", "delay": 0.02}
    link = link_of("mine/lte.toml")
    assert link.down.trace is not None
    assert rate.load(link.down.trace).mean == pytest.approx(36000)


def test_values_that_a_trace_lacks_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("sim"), "0 1\n1 2\n")
    output = printed(capsys, "trace", "import", "pensieve", "sim", "--out", "mine")
    assert "note: up: not in the trace, so the uplink has no limit; give one with --up-mbit" in output
    assert "note: delay: not in the trace, so it is 0" in output
    assert "up: not in the trace, no limit" in toml("mine/sim.toml")["source"]
    assert link_of("mine/sim.toml").up.mbit is None


def test_an_uplink_can_be_given_as_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("sim"), "0 1\n1 2\n")
    output = printed(capsys, "trace", "import", "pensieve", "sim", "--up-mbit", "0.5", "--delay", "0", "--out", "mine")
    assert "note" not in output
    assert link_of("mine/sim.toml").up.mbit == 0.5


def test_clients_become_device_and_link_profiles(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("capacity"), pickle.dumps({int(client): value for client, value in CLIENTS.items()}))
    output = printed(capsys, "trace", "import", "fedscale-capacity", "capacity", "--limit", "2", "--out", "mine")
    assert files() == ["client-1.link.toml", "client-1.toml", "client-2.link.toml", "client-2.toml"]
    assert 'profile = "mine/client-1.toml", link = "mine/client-1.link.toml"' in output
    device = profile_files.named(DeviceProfile, "devices", "client-2.toml", "", "", Path("mine"))
    assert device.seconds_per_sample == pytest.approx(0.06)
    assert "FedScale" in device.source
    assert link_of("mine/client-2.link.toml").down.mbit == 2.0


def test_availability_becomes_a_file_that_a_group_can_name(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("there.json"), {"1": [[0, 5], [8, 10]]})
    output = printed(capsys, "trace", "import", "plato", "there.json", "--out", "mine")
    assert files() == ["client-1.available.csv"]
    assert 'availability = "mine/client-1.available.csv"' in output
    assert availability.read(Path("mine/client-1.available.csv")).share == pytest.approx(0.7)


def test_speeds_of_phones_are_links_with_a_spread(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("s.json"), {"p": {"down_u": 1000, "down_sigma": 100, "up_u": 500, "up_sigma": 100}})
    printed(capsys, "trace", "import", "flash-speed", "s.json", "--unit", "kB/s", "--out", "mine")
    link = link_of("mine/p.toml")
    assert (link.down.mbit, link.down.spread, link.up.mbit, link.up.spread) == (8.0, 0.1, 4.0, 0.2)


def test_names_are_made_safe_for_files(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("t.csv"), "trace,t_s,mbps\n../../etc/x,0,1\n../../etc/x,1,1\n")
    printed(capsys, "trace", "import", "norway3g", "t.csv", "--out", "mine")
    assert files() == ["_.._etc_x.down.csv", "_.._etc_x.toml"]


def test_existing_files_are_overwritten_only_with_force(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("sim"), "0 1\n1 2\n")
    words = ("trace", "import", "pensieve", "sim", "--out", "mine")
    printed(capsys, *words)
    assert "mine/sim.down.csv: exists" in printed(capsys, *words, code=2)
    printed(capsys, *words, "--force")


# ---- selection of entries


def test_a_file_of_many_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("t.csv"), BUS)
    assert printed(capsys, "trace", "import", "norway3g", "t.csv", "--list").splitlines() == [
        "0  bus 1  down 1 s, mean 4 Mbit/s",
        "1  7  down 2 s, mean 6 Mbit/s",
        "2  bus 2  down 1 s, mean 5 Mbit/s",
    ]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (("bus 2",), ["bus_2"]),
        (("0",), ["bus_1"]),
        (("2",), ["bus_2"]),
        (("7",), ["7"]),
        (("7", "0"), ["7", "bus_1"]),
    ],
)
def test_an_entry_is_selected_by_name_or_else_by_position(
    capsys: pytest.CaptureFixture[str], wanted: tuple[str, ...], names: list[str]
) -> None:
    write(Path("t.csv"), BUS)
    words = [word for each in wanted for word in ("--select", each)]
    printed(capsys, "trace", "import", "norway3g", "t.csv", *words, "--out", "mine")
    assert files() == sorted(f"{name}.{end}" for name in names for end in ("down.csv", "toml"))


def test_a_name_has_priority_over_a_position(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("c.json"), {"a": CLIENTS["1"], "b": "bad", "1": CLIENTS["2"]})
    printed(capsys, "trace", "import", "fedscale-capacity", "c.json", "--select", "1", "--out", "mine")
    assert files() == ["client-1.link.toml", "client-1.toml"]


def test_without_a_choice_all_are_imported(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("t.csv"), BUS)
    printed(capsys, "trace", "import", "norway3g", "t.csv", "--out", "mine")
    assert len(files()) == 6


def test_a_selected_entry_can_be_renamed(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("t.csv"), BUS)
    printed(capsys, "trace", "import", "norway3g", "t.csv", "--select", "7", "--name", "metro", "--out", "mine")
    assert files() == ["metro.down.csv", "metro.toml"]


def test_too_many_entries_are_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "MOST", 3)
    write(Path("c.json"), CLIENTS)
    words = ("trace", "import", "fedscale-capacity", "c.json", "--out", "mine")
    assert "more than 3 entries" in printed(capsys, *words, code=2)
    assert not Path("mine").exists()
    printed(capsys, *words, "--limit", "4")
    assert len(files()) == 8


def test_a_bad_entry_is_refused_or_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("c.json"), CLIENTS | {"0": {"computation": -1, "communication": 5}})
    words = ("trace", "import", "fedscale-capacity", "c.json", "--out", "mine")
    assert "--skip-bad" in printed(capsys, *words, code=2)
    assert not Path("mine").exists()
    output = printed(capsys, *words, "--skip-bad")
    assert "note: 1 entry was left out, the first because c.json, '0': computation is -1" in output
    assert len(files()) == 10
    assert "5  0  bad: c.json, '0': computation" in printed(capsys, *words[:4], "--list")


# ---- errors


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("mahimahi", "nowhere", "--out", "mine"), "nowhere: no such file"),
        (("mahimahi", ".", "--out", "mine"), ".: is a folder; name a file in it"),
        (("norway3g", "t.csv"), "--out is missing"),
        (("norway3g", "t.csv", "--out", "mine", "--select", "bus 3"), "has no entry 'bus 3'; did you mean 'bus"),
        (("norway3g", "t.csv", "--out", "mine", "--unit", "kB/s"), "--unit is not for norway3g"),
        (("norway3g", "t.csv", "--out", "mine", "--up", "t.csv"), "--up is not for norway3g"),
        (("norway3g", "t.csv", "--out", "mine", "--delay", "-1"), "--delay is -1; it must be at least 0"),
        (("norway3g", "t.csv", "--out", "mine", "--up-mbit", "nan"), "--up-mbit is nan"),
        (("norway3g", "t.csv", "--out", "mine", "--limit", "0"), "--limit is 0"),
        (("norway3g", "t.csv", "--out", "mine", "--name", "x"), "there are 3 entries"),
        (("norway3g", "t.csv", "--out", "t.csv"), "--out t.csv: cannot be written to"),
        (("flash-speed", "t.csv", "--out", "mine"), "--unit"),
        (("csv", "r.csv", "--up", "r.csv", "--up-mbit", "2", "--out", "mine"), "--up-mbit is 2, but an uplink is"),
        (("csv", "a.csv", "--up-mbit", "2", "--out", "mine"), "--up-mbit applies to a link, and no link is imported"),
        (("csv", "a.csv", "--delay", "0", "--out", "mine"), "--delay applies to a link, and no link is imported"),
        (("fedscale-capacity", "empty.json", "--out", "mine"), "there is nothing to import in it"),
    ],
)
def test_an_impossible_import_is_refused_in_one_line_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    write(Path("t.csv"), BUS)
    write(Path("empty.json"), "{}")
    write(Path("r.csv"), "t_s,mbps\n0,8\n5,\n")
    write(Path("a.csv"), "t_s,available\n0,1\n5,\n")
    assert problem in printed(capsys, "trace", "import", *words, code=2)
    assert not Path("mine").exists()


def test_skipping_is_not_proposed_for_a_single_entry(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("x.down"), "5\n3\n")
    assert "--skip-bad" not in printed(capsys, "trace", "import", "mahimahi", "x.down", "--out", "mine", code=2)


def test_two_entries_with_one_file_name_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("t.csv"), BUS + "bus 1,0,9\nbus 1,1,4\n")
    assert "two entries would get the same file name as 'bus 1'" in printed(
        capsys, "trace", "import", "norway3g", "t.csv", "--out", "m", code=2
    )


def test_a_hostile_pickle_is_refused_by_the_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("x"), b"cos\nmkdir\n(S'it-ran'\ntR.")
    line = printed(capsys, "trace", "import", "fedscale-behaviour", "x", "--out", "mine", code=2)
    assert "this pickle names os.mkdir" in line
    assert not Path("it-ran").exists()


def test_the_help_names_every_kind_and_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main.main(["trace", "import", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert all(f"\n  {kind}" in text for kind in KINDS)
    assert "trace import mahimahi ATT-LTE-driving.down --up ATT-LTE-driving.up" in text
