from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.common.errors import UserError
from testbed.learning.data import cache
from testbed.learning.data.loader import load
from tests.testbed.learning.data.files import TRAIN, RecordedProgress, digits, idx, images, labels, write

ROOT = Path(__file__).parents[4]


@pytest.fixture
def source(folder: Path) -> Path:
    return write(folder / "mnist", digits())


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache/edgebed/arrays").iterdir())


def was_read(progress: RecordedProgress) -> bool:
    return any(what.startswith("reading") for what, _, _ in progress.steps)


@pytest.mark.usefixtures("source")
class TestArrays:
    def test_files_are_read_once(self, folder: Path) -> None:
        first, second = RecordedProgress(), RecordedProgress()
        before = load("mnist", folder, first)
        after = load("mnist", folder, second)
        assert was_read(first)
        assert not was_read(second)
        assert np.array_equal(np.asarray(before.train.inputs), np.asarray(after.train.inputs))
        assert after.classes == before.classes

    def test_arrays_are_mapped_and_read_only(self, folder: Path) -> None:
        inputs: Any = load("mnist", folder).train.inputs
        assert isinstance(inputs.base, np.memmap)
        assert not inputs.flags.writeable

    def test_the_cache_contains_nothing_else(self, folder: Path, tmp_path: Path) -> None:
        load("mnist", folder)
        (only,) = kept(tmp_path)
        assert only.name.startswith("mnist-")
        assert {path.name for path in only.iterdir()} == {
            "index.json",
            "train_inputs.npy",
            "train_targets.npy",
            "test_inputs.npy",
            "test_targets.npy",
        }

    @pytest.mark.parametrize("file", ["train_inputs.npy", "test_targets.npy", "index.json"])
    @pytest.mark.parametrize("harm", ["flip", "cut", "remove", "empty"])
    def test_damage_is_detected_reported_and_repaired(self, folder: Path, tmp_path: Path, file: str, harm: str) -> None:
        load("mnist", folder)
        path = kept(tmp_path)[0] / file
        content = path.read_bytes()
        if harm == "remove":
            path.unlink()
        else:
            flipped = bytes([content[0] ^ 0x80]) + content[1:]
            path.write_bytes(
                {"flip": flipped, "cut": content[:-1] if file != "index.json" else content[:-9]}.get(harm, b"")
            )
        progress = RecordedProgress()
        data = load("mnist", folder, progress)
        assert np.array_equal(np.asarray(data.train.inputs)[:, 0], images(TRAIN))
        assert len(progress.texts) == 1
        assert file in progress.texts[0]
        assert "read from its files again" in progress.texts[0]
        assert len(kept(tmp_path)) == 1
        again = RecordedProgress()
        load("mnist", folder, again)
        assert not again.texts

    def test_a_changed_file_is_read_again(self, folder: Path) -> None:
        load("mnist", folder)
        write(folder / "mnist", {"train-labels-idx1-ubyte": idx(labels(TRAIN)[::-1])})
        assert load("mnist", folder).train.targets.tolist() == labels(TRAIN)[::-1].tolist()

    def test_unused_arrays_of_the_data_set_are_removed_after_a_week(self, folder: Path, tmp_path: Path) -> None:
        for name in ("old", "recent"):
            write(tmp_path / name / "mnist", digits())
            load("mnist", tmp_path / name)
            if name == "old":
                old = kept(tmp_path)[0]
                (draft := old.with_name(".mnist-killed")).mkdir()
                for path in (old / "index.json", draft):
                    os.utime(path, (0, 0))
        assert not old.exists()
        assert not draft.exists()
        load("mnist", folder)
        assert len(kept(tmp_path)) == 2

    def test_opening_counts_as_use(self, folder: Path, tmp_path: Path) -> None:
        load("mnist", folder)
        index = kept(tmp_path)[0] / "index.json"
        os.utime(index, (0, 0))
        load("mnist", folder)
        assert index.stat().st_mtime > 1e9

    def test_a_data_set_in_use_survives_its_removal(self, folder: Path, tmp_path: Path) -> None:
        data = load("mnist", folder)
        shutil.rmtree(tmp_path / "cache")
        assert np.array_equal(np.asarray(data.train.inputs)[:, 0], images(TRAIN))

    def test_a_cache_that_cannot_be_written_is_an_error_with_the_remedy(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "cache").write_text("a file where a folder should be")
        with pytest.raises(
            UserError, match=r"edgebed/arrays: arrays of mnist cannot be stored here: .* XDG_CACHE_HOME"
        ):
            load("mnist", folder)

    def test_a_full_disk_leaves_no_files(self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match="cannot be stored here: No space left on device; free disk space"):
            load("mnist", folder)
        assert kept(tmp_path) == []

    def test_repeated_damage_is_an_error(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        checksums = iter(range(1000))
        monkeypatch.setattr(cache, "_crc32", lambda path: next(checksums))
        with pytest.raises(UserError, match="damaged 3 times in a row"):
            load("mnist", folder)

    def test_the_second_of_two_parsers_uses_the_result_of_the_first(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write = cache._write

        def overtaken(draft: Path, *rest: Any) -> None:
            write(draft, *rest)
            monkeypatch.setattr(cache, "_write", write)
            load("mnist", folder)

        monkeypatch.setattr(cache, "_write", overtaken)
        assert len(load("mnist", folder).train) == TRAIN
        assert len(kept(tmp_path)) == 1

    def test_two_processes_at_once_both_succeed(self, folder: Path, tmp_path: Path) -> None:
        code = (
            "import sys, pathlib; from testbed.learning.data.loader import load; sys.stdin.read(1);"
            f"print(load('mnist', pathlib.Path({str(folder)!r})).train.targets.sum())"
        )
        started = [
            subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(3)
        ]
        for process in started:
            assert process.stdin is not None
            process.stdin.write(b"x")
            process.stdin.flush()
        answers = [process.communicate(timeout=300)[0] for process in started]
        assert answers == [b"21\n"] * 3
        assert len(kept(tmp_path)) == 1


def test_an_unreadable_source_is_not_reported_as_a_problem_of_the_cache(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: Any) -> None:
        raise PermissionError(13, "Permission denied", str(source / "t10k-images-idx3-ubyte"))

    monkeypatch.setattr("testbed.learning.data.readers.idx.read", forbidden)
    with pytest.raises(UserError, match="t10k-images-idx3-ubyte: cannot be read: Permission denied"):
        load("mnist", folder)
