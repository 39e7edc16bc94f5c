from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.common.errors import UserError
from testbed.learning.data.dataset import DataSet, Subset
from testbed.learning.data.loader import load
from testbed.learning.data.windows import every

FIRST, SECOND = "abcdefghij" * 50, "klmno\npqrst" * 40
"""Two speeches of one role, of 500 and 440 characters."""
OTHER = "uvwxyz" * 20


def play(folder: Path, text: str, name: str = "input.txt") -> Path:
    (folder / "shakespeare").mkdir(exist_ok=True)
    path = folder / "shakespeare" / name
    path.write_bytes(text.encode())
    return path


@pytest.fixture
def data(folder: Path) -> DataSet:
    play(folder, f"Romeo:\n{FIRST}\n\nJULIET:\n{OTHER}\n\n\nPage:\nShort.\n\nRomeo:\n{SECOND}\n")
    return load("shakespeare", folder)


def rows(data: DataSet, part: Subset) -> list[str]:
    letters = np.array(data.classes)
    return ["".join(letters[row]) for row in part.inputs[np.arange(len(part))]]


def expected(text: str) -> list[str]:
    return [text[start : start + 80] for start in range(len(text) - 80)]


def test_windows_of_a_role_are_cut_from_all_its_speeches(data: DataSet) -> None:
    romeo = f"{FIRST}\n{SECOND}"  # 941 characters: the last 94 are for testing
    assert rows(data, data.train) == expected(romeo[:847]) + expected(OTHER[:108])
    assert rows(data, data.test) == expected(romeo[847:])


def test_targets_are_the_next_characters(data: DataSet) -> None:
    romeo = f"{FIRST}\n{SECOND}"
    letters = np.array(data.classes)
    assert "".join(letters[data.train.targets]) == romeo[80:847] + OTHER[80:108]
    assert "".join(letters[data.test.targets]) == romeo[847 + 80 :]


def test_owners_are_roles_and_short_ones_are_left_out(data: DataSet) -> None:
    assert data.owners == ("Romeo", "JULIET")
    assert data.train.owners is not None
    assert np.bincount(data.train.owners).tolist() == [847 - 80, 108 - 80]


def test_the_alphabet_is_that_of_the_whole_text(data: DataSet) -> None:
    assert data.classes == tuple(sorted(set("Romeo:JULIET\nPageShort." + FIRST + SECOND + OTHER)))


def test_only_the_requested_windows_are_copied(data: DataSet) -> None:
    chosen = data.train.inputs[np.array([5, 0, 5])]
    assert chosen.shape == (3, 80)
    assert chosen.dtype == np.uint8
    assert np.array_equal(chosen[0], chosen[2])
    assert len(data.train.inputs) == len(data.train)


def test_a_stride_starts_again_with_each_role(data: DataSet) -> None:
    few = every(data.train, 50)
    all_rows = rows(data, data.train)
    assert rows(data, few) == all_rows[:767:50] + all_rows[767::50]
    assert few.targets.tolist() == [*data.train.targets[:767:50], *data.train.targets[767::50]]
    assert few.owners is not None
    assert set(few.owners.tolist()) == {0, 1}


def test_a_stride_of_one_keeps_all_samples(data: DataSet) -> None:
    assert rows(data, every(data.train, 1)) == rows(data, data.train)


def test_a_stride_works_on_any_part() -> None:
    part = Subset(inputs=np.arange(7), targets=np.arange(7) * 10)
    few = every(part, 3)
    assert np.asarray(few.inputs).tolist() == [0, 3, 6]
    assert few.targets.tolist() == [0, 30, 60]
    with pytest.raises(ValueError, match="at least 1"):
        every(part, 0)


def test_line_ends_of_windows_do_not_matter(folder: Path) -> None:
    play(folder, f"A:\r\n{FIRST}\r\n{FIRST}\r\n\r\nB:\r\n{OTHER}\r\n")
    data = load("shakespeare", folder)
    assert data.owners == ("A", "B")
    assert "\r" not in data.classes


def test_a_speech_may_have_a_blank_line(folder: Path) -> None:
    play(folder, f"A:\n{FIRST}\n\nand more\n\nB:\n{FIRST}{FIRST}")
    data = load("shakespeare", folder)
    assert data.owners == ("A", "B")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"No role here\n\nA:\nhello", "its first line is 'No role here'"),
        (b"", "its first line is ''"),
        (b"A:\nshort", "no role has more than 80 characters for training"),
        (b"A:\n" + b"x" * 100, "no role has more than 80 characters in its last tenth"),
        (b"A:\n\xff\xfe", "is not a text in UTF-8"),
        ("A:\n" + "".join(map(chr, range(200, 600))), "different characters"),
    ],
)
def test_a_text_of_another_form_is_refused(folder: Path, content: Any, problem: str) -> None:
    path = play(folder, "")
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UserError, match=rf"input\.txt: .*{problem}"):
        load("shakespeare", folder)


def test_tinyshakespeare_has_a_checksum(folder: Path) -> None:
    play(folder, f"A:\n{FIRST}{FIRST}", "tinyshakespeare.txt")
    with pytest.raises(UserError, match=r"tinyshakespeare\.txt: its md5 is .* 6fb458f1.* name it input\.txt"):
        load("shakespeare", folder)
