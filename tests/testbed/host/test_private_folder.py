"""The private folder of a run, and its removal by another process if the launcher died."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.host import private_folder as private_folder_module
from testbed.host.private_folder import private_folder, remove_abandoned, sweep
from tests.live.runs import with_this_code

USER = """
import os, sys, tempfile
from testbed.host import private_folder
tempfile.tempdir = sys.argv[1]
private_folder._LONGEST_FOLDER = 1000
with private_folder.private_folder() as place:
    (place.path / "hub").touch()
    print(place.path, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder; its path may be long."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(private_folder_module, "_LONGEST_FOLDER", 1000)
    return tmp_path


@contextlib.contextmanager
def user_of_a_folder(base: Path, *before: str, program: str = USER) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a private folder until it is killed or gets a line."""
    words = [*before, sys.executable, "-c", program, str(base)]
    environment = with_this_code()
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    with process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def leftover(base: Path) -> Path:
    """The folder of a process that was killed."""
    with user_of_a_folder(base) as (process, place):
        process.kill()
        process.wait()
    assert place.is_dir()
    return place


def test_the_private_folder_has_mode_0700_and_a_short_path_and_is_removed_at_the_end() -> None:
    with private_folder() as place:
        assert stat.S_IMODE(place.path.stat().st_mode) == 0o700
        assert len(str(place.path / "hub")) < 100
        (place.path / "hub").touch()
        (place.path / "replay").mkdir()
        (place.path / "replay" / "1.csv").touch()
    assert not place.path.exists()


def test_the_private_folder_has_a_short_path_even_if_the_temporary_folder_has_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    deep = tmp_path_factory.mktemp("x" * 100)
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with private_folder() as place:
        assert len(str(place.path / "hub")) < 100
    assert list(deep.iterdir()) == []


# ---- leftovers


def test_the_folder_of_a_killed_run_is_removed_by_the_next_one(base: Path) -> None:
    place = leftover(base)
    (place / "replay").mkdir()
    (place / "replay" / "1.csv").touch()
    with private_folder() as own:
        assert list(base.iterdir()) == [own.path]


def unlocked_leftover(base: Path, killed_in: str) -> Path:
    """The folder of a process that was killed when it called this function."""
    waiting = f"""
def wait(*arguments, **options):
    [folder] = [name for name in os.listdir(sys.argv[1]) if name.startswith("edgebed-")]
    print(os.path.join(sys.argv[1], folder), flush=True)
    sys.stdin.readline()
private_folder.{killed_in} = wait
"""
    program = USER.replace("with private", f"{waiting}\nwith private")
    with user_of_a_folder(base, program=program) as (process, place):
        process.kill()
        process.wait()
    assert place.is_dir()
    return place


@pytest.mark.parametrize(("killed_in", "content"), [("_locked", []), ("fcntl.flock", ["lock.new"])])
def test_the_folder_of_a_run_that_was_killed_before_it_was_locked_is_removed_by_the_next_one(
    base: Path, killed_in: str, content: list[str]
) -> None:
    place = unlocked_leftover(base, killed_in)
    assert [path.name for path in place.iterdir()] == content
    with private_folder() as own:
        assert list(base.iterdir()) == [own.path]


@pytest.mark.parametrize("moment", ["before the file", "before the lock", "while the other has the lock"])
def test_a_run_whose_folder_another_one_takes_for_a_leftover_makes_another(
    base: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    locked, flock, removed = private_folder_module._locked, fcntl.flock, []

    def remove(path: Path) -> None:
        if not removed:
            removed.append(path)
            assert remove_abandoned(path)

    def lock_folder(path: Path) -> int | None:
        if moment == "before the file":
            remove(path)
        return locked(path)

    def lock_file(file: int, how: int) -> None:
        [path] = [each for each in base.iterdir() if each not in removed]
        if moment == "before the lock" and not removed:
            monkeypatch.setattr(fcntl, "flock", flock)  # the other run locks, too
            remove(path)
            monkeypatch.setattr(fcntl, "flock", lock_file)
        elif moment == "while the other has the lock" and not removed:
            removed.append(path)
            raise BlockingIOError
        flock(file, how)

    monkeypatch.setattr(private_folder_module, "_locked", lock_folder)
    monkeypatch.setattr(fcntl, "flock", lock_file)
    with private_folder() as own:
        assert own.path not in removed
        assert own.lock is not None
        assert [path.name for path in own.path.iterdir()] == [private_folder_module._lock_name()]
    assert len(removed) == 1


def test_an_unlocked_folder_with_anything_in_it_stays(base: Path) -> None:
    (base / "edgebed-12-abcdefgh").mkdir(mode=0o700)
    (base / "edgebed-12-abcdefgh" / "hub").touch()
    (base / "edgebed-13-abcdefgh").mkdir(mode=0o755)
    (base / "edgebed-14-abcdefgh").mkdir(mode=0o700)
    (base / "edgebed-14-abcdefgh" / "lock.new").write_text("mine", encoding="utf-8")
    (base / "edgebed-15-my-own").mkdir(mode=0o700)
    before = sorted(base.rglob("*"))
    sweep()
    assert sorted(base.rglob("*")) == before


def test_the_folder_of_a_living_run_stays_whatever_its_name_says(base: Path) -> None:
    """A pid means another process, or none, in another PID namespace."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    with user_of_a_folder(base) as (_, place):
        renamed = place.rename(base / f"edgebed-{dead.pid}-x")
        sweep()
        assert not remove_abandoned(renamed)
        assert (renamed / "hub").exists()


def test_the_folder_of_a_run_in_another_pid_namespace_stays_until_the_run_ends(base: Path) -> None:
    unshare = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not make PID namespaces")
    with user_of_a_folder(base, *unshare) as (process, place):
        sweep()
        assert (place / "hub").exists()
        process.communicate("\n")
    assert not place.exists()


def test_a_folder_stays_as_long_as_a_process_has_inherited_its_lock(base: Path) -> None:
    forking = USER.replace("    print(", "    if not os.fork():\n        os._exit(bool(sys.stdin.read()))\n    print(")
    with user_of_a_folder(base, program=forking) as (process, place):
        process.kill()
        process.wait()
        assert not remove_abandoned(place)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.read()  # until the other process has ended, too
    assert remove_abandoned(place)
    assert list(base.iterdir()) == []


def test_what_is_not_ours_stays(base: Path) -> None:
    place = leftover(base)
    [lock] = place.glob("lock-*")
    valuable = base / "valuable"
    valuable.mkdir()
    (valuable / lock.name).touch()
    (base / "edgebed-999999-x").symlink_to("nowhere")
    (base / "edgebed-999998-x").symlink_to(valuable)
    (base / "edgebed-999997-x").touch()
    for number, name in enumerate(["hub", "lock.new", "lock-of-another-kernel"]):
        (base / f"edgebed-99999{number}-x").mkdir()
        (base / f"edgebed-99999{number}-x" / name).touch()
    linked, piped = base / "edgebed-999994-x", base / "edgebed-999995-x"
    linked.mkdir()
    (linked / lock.name).symlink_to(valuable / lock.name)
    piped.mkdir()
    os.mkfifo(piped / lock.name)
    before = sorted(path for path in base.rglob("*") if not path.is_relative_to(place))
    with private_folder():
        assert not place.exists()
    sweep()
    assert sorted(base.rglob("*")) == before


def test_links_in_a_leftover_are_removed_and_not_followed(base: Path) -> None:
    place, valuable = leftover(base), base / "valuable"
    valuable.mkdir()
    (valuable / "file").touch()
    (place / "folder").symlink_to(valuable)
    (place / "file").symlink_to(valuable / "file")
    sweep()
    assert sorted(path.name for path in base.rglob("*")) == ["file", "valuable"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_the_leftover_of_another_user_stays(base: Path) -> None:
    place = leftover(base)
    os.chown(place, 65534, 65534)
    sweep()
    assert (place / "hub").exists()


def test_a_leftover_that_is_deeper_than_the_stack_of_python_raises_nothing(base: Path) -> None:
    deep = place = leftover(base)
    folder = os.open(deep, os.O_RDONLY)
    for _ in range(2 * sys.getrecursionlimit()):
        os.mkdir("x", dir_fd=folder)
        inner = os.open("x", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    sweep()
    assert list(base.iterdir()) in ([place], [])
    subprocess.run(["rm", "-r", str(place)], check=False, stderr=subprocess.DEVNULL)


def test_a_temporary_folder_that_is_gone_raises_nothing(monkeypatch: pytest.MonkeyPatch, base: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(base / "gone"))
    sweep()


def test_simultaneous_starts_over_many_leftovers_all_succeed(base: Path) -> None:
    place = leftover(base)
    [lock] = place.glob("lock-*")
    for number in range(400):
        (base / f"edgebed-99{number:04}-x").mkdir()
        (base / f"edgebed-99{number:04}-x" / lock.name).touch()
    words = [sys.executable, "-c", USER, str(base)]
    starts = [
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=with_this_code())
        for _ in range(4)
    ]
    assert [start.wait(120) for start in starts] == [0, 0, 0, 0]
    sweep()  # what two of them wanted to remove at the same time is left by one
    assert list(base.iterdir()) == []


def test_a_folder_without_locks_is_used_and_only_its_owner_removes_it(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no locks available")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", fail)
        with private_folder() as place:
            assert place.share() == []
            patch.undo()
            sweep()
            assert place.path.exists()
    assert list(base.iterdir()) == []


def test_another_process_that_removes_a_living_folder_by_force_does_not_fail_its_user(base: Path) -> None:
    with user_of_a_folder(base) as (process, place):
        subprocess.run(["rm", "-r", str(place)], check=True)
        process.communicate("\n")
        assert process.returncode == 0
