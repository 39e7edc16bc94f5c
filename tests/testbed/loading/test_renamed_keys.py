"""Old names of keys in profiles: stored run folders contain them."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.common.errors import ProfileError
from testbed.loading.profile_loader import load
from testbed.loading.renamed_keys import RENAMED_KEYS, upgrade
from testbed.profile.schema import Experiment

MINIMAL = """
strategy = "fedasync"
stop.versions = 1
[[devices]]
profile = "rpi4"
count = 2
link = "ethernet"
"""
STORED = Path(__file__).parents[2] / "fixtures/schema4/delays/profile.toml"


def loaded(folder: Path, text: str, *overrides: str) -> Experiment:
    path = folder / "old.toml"
    path.write_text(MINIMAL + text, encoding="utf-8")
    return load(path, overrides)


def test_the_old_key_of_the_message_limit_is_read(tmp_path: Path) -> None:
    assert loaded(tmp_path, "[transport]\nrate = 50\n").transport.message_limit == 50


def test_the_old_key_of_the_heartbeat_is_read(tmp_path: Path) -> None:
    assert loaded(tmp_path, "[presence]\nbeat = 0.5\n").presence.heartbeat == 0.5


def test_the_old_key_is_read_on_the_command_line(tmp_path: Path) -> None:
    assert loaded(tmp_path, "", "transport.rate=60").transport.message_limit == 60


def test_the_old_key_is_read_in_a_whole_section_on_the_command_line(tmp_path: Path) -> None:
    assert loaded(tmp_path, "", "presence={beat=0.5, timeout=5}").presence.heartbeat == 0.5


def test_the_old_path_of_a_task_is_read() -> None:
    table = {"task": {"name": "testbed.tasks.smaller:SmallFemnist", "model": "cnn"}}
    upgrade(table)
    assert table["task"]["name"] == "testbed.learning.tasks.smaller_tasks:SmallFemnist"


def test_a_key_on_the_command_line_replaces_the_old_key_of_the_file(tmp_path: Path) -> None:
    text = "[transport]\nrate = 50\n"
    assert loaded(tmp_path, text, "transport.message_limit=70").transport.message_limit == 70
    assert loaded(tmp_path, text, "transport.rate=80").transport.message_limit == 80


def test_a_bad_value_of_an_old_key_is_reported_under_the_new_key(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"transport\.message_limit"):
        loaded(tmp_path, "[transport]\nrate = 1\n")
    with pytest.raises(ProfileError, match=r"--set transport\.rate=1"):
        loaded(tmp_path, "", "transport.rate=1")


def test_a_profile_with_both_keys_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"transport\.rate"):
        loaded(tmp_path, "[transport]\nrate = 50\nmessage_limit = 50\n")


def test_the_profile_of_a_stored_run_is_read() -> None:
    assert "rate = 10000.0" in STORED.read_text(encoding="utf-8")
    assert load(STORED).transport.message_limit == 10_000


def test_the_rate_of_another_section_is_left_alone() -> None:
    table = {"strategy": {"rate": 1}, "transport": "tcp"}
    upgrade(table)
    assert table == {"strategy": {"rate": 1}, "transport": "tcp"}


def test_every_new_key_exists_in_the_section_of_the_old_one() -> None:
    for old, new in RENAMED_KEYS.items():
        assert old.partition(".")[0] == new.partition(".")[0]
        section = getattr(load(STORED), new.partition(".")[0])
        assert hasattr(section, new.partition(".")[2])
