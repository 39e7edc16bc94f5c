"""A user's CSV: which columns are read, and every bad input in one line that names file and line."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.common.errors import UserError
from testbed.common.files import text_lines
from testbed.learning.data.own_files import csv_file
from testbed.learning.data.own_files.csv_columns import CsvChoice
from testbed.learning.data.own_files.size_limit import SizeLimit
from testbed.learning.data.readers.source import Parsed
from tests.testbed.learning.data.files import RecordedProgress

GOOD = "a,b,kind\n1,2.5,walk\n-3,4e2,run\n0,7,walk\n"


def written(folder: Path, text: str | bytes, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(
    path: Path,
    test: Path | None = None,
    most_mb: int = 10,
    progress: RecordedProgress | None = None,
    **choice: Any,
) -> Parsed:
    chosen = CsvChoice(**{"label": "kind", "is_value": False} | choice)
    return csv_file.parse(path, test, chosen, SizeLimit(path=path, most_mb=most_mb), progress or RecordedProgress())


def refusal(path: Path, **more: Any) -> str:
    with pytest.raises(UserError) as caught:
        read(path, **more)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(str(path.parent))
    return text.removeprefix(str(path))


# ---- what is read


def test_all_other_columns_are_features_and_sorted_labels_are_classes(tmp_path: Path) -> None:
    found = read(written(tmp_path, GOOD))
    assert found.classes == ("run", "walk")
    assert found.arrays["train_inputs"].tolist() == [[1, 2.5], [-3, 400], [0, 7]]
    assert found.arrays["train_inputs"].dtype == np.float32
    assert found.arrays["train_targets"].tolist() == [1, 0, 1]


def test_labels_that_are_numbers_are_sorted_by_value(tmp_path: Path) -> None:
    assert read(written(tmp_path, "a,kind\n1,10\n2,9\n3,-1\n")).classes == ("-1", "9", "10")


def test_listed_features_have_the_order_of_the_list(tmp_path: Path) -> None:
    found = read(written(tmp_path, GOOD), features=("b", "a"))
    assert found.arrays["train_inputs"][0].tolist() == [2.5, 1]


def test_columns_of_text_become_columns_of_ones_in_their_place(tmp_path: Path) -> None:
    path = written(tmp_path, "a,place,b,kind\n1,out,2,x\n3,in,4,y\n5,out,6,x\n")
    found = read(path, one_hot=("place",))
    assert found.arrays["train_inputs"].tolist() == [[1, 0, 1, 2], [3, 1, 0, 4], [5, 0, 1, 6]]


def test_a_second_file_is_for_testing_and_shares_all_names(tmp_path: Path) -> None:
    train = written(tmp_path, "place,who,kind\nout,p9,x\nin,p10,y\n")
    test = written(tmp_path, "place,who,kind\nup,p1,y\n", "test.csv")
    found = read(train, test, one_hot=("place",), owner="who")
    assert found.owners == ("p1", "p10", "p9")
    assert found.arrays["train_owners"].tolist() == [2, 1]
    assert found.arrays["test_inputs"].tolist() == [[0, 0, 1]]  # in, out, up
    assert found.arrays["test_targets"].tolist() == [1]


def test_a_label_may_be_a_number_to_predict(tmp_path: Path) -> None:
    found = read(written(tmp_path, "a,price\n1,2.5\n2,-1\n"), label="price", is_value=True)
    assert found.classes == ()
    assert found.arrays["train_targets"].tolist() == [2.5, -1]


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,
        GOOD.replace("\n", "\n\n"),
        GOOD.removesuffix("\n"),
        '"a","b","kind"\n1,2.5,"walk"\n-3,4e2,run\n0,7,walk\n',
        GOOD.replace("walk", " walk "),
        gzip.compress(GOOD.encode(), mtime=0),
    ],
)
def test_other_ways_to_write_the_same_file_are_read(tmp_path: Path, text: str | bytes) -> None:
    expected, found = read(written(tmp_path, GOOD)), read(written(tmp_path, text, "other.csv"))
    assert found.classes == expected.classes
    assert np.array_equal(found.arrays["train_inputs"], expected.arrays["train_inputs"])


def test_cells_may_be_separated_by_semicolons_and_lines_be_many(tmp_path: Path) -> None:
    rows = "".join(f"{i};{i % 3}\n" for i in range(9_000))  # more than two blocks
    found = read(written(tmp_path, f"a;kind\n{rows}"), delimiter=";")
    assert np.array_equal(found.arrays["train_inputs"][:, 0], np.arange(9_000))
    assert np.array_equal(found.arrays["train_targets"], np.arange(9_000) % 3)


def test_lines_without_all_values_may_be_left_out(tmp_path: Path) -> None:
    progress = RecordedProgress()
    path = written(tmp_path, "a,kind\n1,x\n,x\n2,y\n3,\nNaN,y\n")
    found = read(path, skip_missing=True, progress=progress)
    assert found.arrays["train_inputs"].tolist() == [[1], [2]]
    assert progress.texts == [f"{path}: 3 lines without all values are left out"]


def test_reading_reports_how_far_it_is(tmp_path: Path) -> None:
    progress = RecordedProgress()
    path = written(tmp_path, "a,kind\n" + "1,x\n2,y\n" * 15_000)
    read(path, progress=progress)
    assert len(progress.steps) == 2
    what, done, total = progress.steps[-1]
    assert (what, total) == ("reading own.csv", path.stat().st_size)
    assert 0 < done < path.stat().st_size


# ---- bad input

BAD = {
    "empty": ("", {}, ": is empty; its first line must name the columns"),
    "header only": ("a,kind\n", {}, ": has no samples below its header; add some"),
    "no header": ("1,2\n3,4\n", {}, ", line 1: has only numbers; the first line must name the columns: add it"),
    "unknown label": (GOOD, {"label": "knid"}, ", line 1: there is no column 'knid'; did you mean 'kind'?"),
    "unknown feature": (GOOD, {"features": ("c",)}, ", line 1: there is no column 'c'; known: a, b, kind"),
    "other delimiter": (GOOD.replace(",", ";"), {}, ", line 1: there is no column 'kind'; set task.delimiter = ';'"),
    "unknown owner": (GOOD, {"owner": "who"}, ", line 1: there is no column 'who'"),
    "repeated column": ("a,a,kind\n1,2,x\n", {}, ", line 1: has 2 columns 'a'; give them different names"),
    "row numbers of pandas": (
        ",a,kind\n0,1,x\n",
        {},
        ", line 1: column 1 has no name (row numbers that pandas wrote?)",
    ),
    "only a label": ("kind\nx\ny\n", {}, ", line 1: has no column besides label and owner"),
    "label as feature": (GOOD, {"features": ("a", "kind")}, ": column 'kind' is label or owner, and in task.features"),
    "category that is no feature": (GOOD, {"features": ("a",), "one_hot": ("b",)}, ": column 'b' is in task.one_hot,"),
    "ragged": ("a,kind\n1,x\n1,2,y\n", {}, ", line 3: has 3 cells, and the header has 2: correct it"),
    "short": ("a,b,kind\n1,2,x\n1,y\n", {}, ", line 3: has 2 cells, and the header has 3"),
    "text": ("a,kind\n1,x\nred,y\n", {}, ", line 3: column 'a' has the text 'red'; list the column in task.one_hot"),
    "text as value": (
        "a,kind\n1,x\n",
        {"is_value": True},
        ", line 2: column 'kind' has the text 'x'; it must be a number",
    ),
    "underscore": ("a,kind\n1_000,x\n", {}, ", line 2: column 'a' has the text '1_000'"),
    "missing number": (
        "a,kind\n1,x\n,y\n",
        {},
        ", line 3: has no value in column 'a'; fill it in, remove the line, or",
    ),
    "missing label": ("a,kind\n1,x\n2,\n", {}, ", line 3: has no value in column 'kind'"),
    "NaN": ("a,kind\n1,x\nnan,y\n", {}, ", line 3: has no value in column 'a'"),
    "infinite": ("a,kind\n1,x\n-inf,y\n", {}, ", line 3: column 'a' is -inf; a number must be finite, and below 3e38"),
    "too large": ("a,kind\n1,x\n1e39,y\n", {}, ", line 3: column 'a' is 1e+39; a number must be finite"),
    "one class": ("a,kind\n1,x\n2,x\n", {}, ", column 'kind': all labels are 'x'; a classification needs two classes"),
    "values as classes": (
        "a,kind\n" + "".join(f"1,{i}.5\n" for i in range(60)),
        {},
        ", column 'kind': has 60 classes for 60 samples; if the label is a number to predict, use task.target =",
    ),
    "unclosed quotes": ('a,kind\n1,x\n"2,y\n', {}, ", line 3: unexpected end of data; correct it"),
    "not UTF-8": (b"a,kind\n1,x\n2,caf\xe9\n", {}, ", line 3: is not UTF-8; convert the file, as by iconv"),
    "many categories": (
        "a,kind\n" + "".join(f"n{i},{i % 2}\n" for i in range(1_100)),
        {"one_hot": ("a",)},
        ": column 'a' has more than 1,000 different texts by line 1101; leave it out",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_one_line_with_its_place(tmp_path: Path, name: str) -> None:
    text, choice, problem = BAD[name]
    found = refusal(written(tmp_path, text), **choice)  # type: ignore[arg-type]
    assert found.startswith(problem)


def test_a_class_without_training_samples_is_refused(tmp_path: Path) -> None:
    test = written(tmp_path, "a,b,kind\n1,2,sit\n", "test.csv")
    found = refusal(written(tmp_path, GOOD), test=test)
    assert found.startswith(", column 'kind': the test part has the label 'sit', of which there is no training sample")


def test_an_error_in_the_second_file_names_that_file(tmp_path: Path) -> None:
    test = written(tmp_path, "a,b,kind\n1,2\n", "test.csv")
    with pytest.raises(UserError) as caught:
        read(written(tmp_path, GOOD), test)
    assert str(caught.value).startswith(f"{test}, line 2: has 2 cells")


def test_too_many_samples_are_refused_before_they_fill_the_memory(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b,c,kind\n" + "1,2,3,x\n" * 70_000 + "1,2,3,y\n")
    found = refusal(path, most_mb=1)
    assert found.startswith(": its samples need 2 MB as arrays, and task.most_mb is 1: raise it, or use fewer columns")


def test_a_file_without_line_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "MOST_CHARACTERS", 1000)
    assert ", line 2: has more than 1,000 characters" in refusal(written(tmp_path, "a,kind\n" + "1" * 5000))


def test_a_pipe_and_a_folder_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    assert "is a pipe, and only regular files are read" in refusal(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder; name a file in it" in refusal(tmp_path / "folder.csv")
