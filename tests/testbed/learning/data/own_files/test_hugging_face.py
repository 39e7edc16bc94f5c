"""A folder that Hugging Face's ``datasets`` has saved. Without the package, only what precedes its import is tested."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from testbed.common.errors import UserError
from testbed.learning.data.own_files import hugging_face
from testbed.learning.data.own_files.hugging_face import HuggingFaceChoice
from testbed.learning.data.own_files.image_decoding import ImageShape
from testbed.learning.data.own_files.size_limit import SizeLimit
from testbed.learning.data.readers.source import Parsed
from tests.testbed.learning.data.files import RecordedProgress

needs_datasets = pytest.mark.skipif(
    importlib.util.find_spec("datasets") is None, reason="the package datasets is missing (make test-hf)"
)
pytestmark = pytest.mark.filterwarnings("default")  # those of the packages are not ours


def read(folder: Path, most_mb: int = 10, size: int | None = None, **choice: Any) -> Parsed:
    hugging_face.files_of(folder)
    defaults = {"label": "label", "is_value": False, "features": (), "owner": None, "train": "train", "test": "test"}
    images = ImageShape(size=size, grey=True)
    chosen = HuggingFaceChoice(**defaults | choice, images=images, channels="auto")  # type: ignore[arg-type]
    return hugging_face.parse(folder, chosen, SizeLimit(path=folder, most_mb=most_mb), RecordedProgress())


def refusal(folder: Path, **more: Any) -> str:
    with pytest.raises(UserError) as caught:
        read(folder, **more)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(str(folder))
    return text.removeprefix(str(folder))


def saved(folder: Path, columns: dict[str, list[Any]], features: Any = None) -> Path:
    import datasets

    datasets.disable_progress_bars()
    datasets.Dataset.from_dict(columns, features=features).save_to_disk(str(folder / "own"))
    return folder / "own"


# ---- before the package is imported


def pretended(folder: Path, **files: Any) -> Path:
    """Write a folder with the given JSON files."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_a_folder_that_was_not_saved_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "own").startswith(": there is no such folder")
    assert refusal(pretended(tmp_path / "own")).startswith(
        ": has no state.json; name a folder that dataset.save_to_disk"
    )


@pytest.mark.parametrize("content", ["", "{", "[]", '{"_data_files": 3}', '{"_data_files": [{}]}'])
def test_a_damaged_state_is_refused(tmp_path: Path, content: str) -> None:
    found = refusal(pretended(tmp_path / "own", state=content))
    assert found.startswith("/state.json: is damaged (")


@pytest.mark.parametrize("name", ["../secret.arrow", "/etc/passwd", "a/b.arrow", "..", "", "link.arrow"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    state = {"_data_files": [{"filename": name}]}
    folder = pretended(tmp_path / "own", state=state, dataset_info={})
    (folder / "link.arrow").symlink_to("/etc/passwd")
    assert refusal(folder).startswith(f": names {name!r}, which is not in this folder")


def test_splits_that_lead_elsewhere_are_refused(tmp_path: Path) -> None:
    folder = pretended(tmp_path / "own", dataset_dict={"splits": ["../other"]})
    assert refusal(folder).startswith(": names '../other', which is not in this folder")


def test_a_missing_package_is_named_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = pretended(tmp_path / "own", state={"_data_files": [{"filename": "a.arrow"}]}, dataset_info={})
    (folder / "a.arrow").touch()
    monkeypatch.setitem(sys.modules, "datasets", None)
    environment = dict(os.environ)
    found = refusal(folder)
    assert dict(os.environ) == environment, "this may be the process of a notebook, whose user is not offline"
    assert found.startswith(": the task huggingface needs the package datasets (")
    assert found.endswith("): pip install 'edgebed[hf]'")


# ---- with the package


@needs_datasets
class TestSavedFolder:
    def test_images_and_named_labels_are_read(self, tmp_path: Path) -> None:
        import datasets

        pixels = np.arange(2 * 4 * 5, dtype=np.uint8).reshape(2, 4, 5)
        features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["walk", "run"])})
        folder = saved(tmp_path, {"image": [Image.fromarray(each) for each in pixels], "label": [0, 1]}, features)
        found = read(folder)
        assert found.classes == ("run", "walk")
        assert found.arrays["train_targets"].tolist() == [1, 0]
        assert np.array_equal(found.arrays["train_inputs"], pixels[:, None])
        assert read(folder, size=3).arrays["train_inputs"].shape == (2, 1, 3, 3)

    def test_columns_of_numbers_are_vectors(self, tmp_path: Path) -> None:
        folder = saved(tmp_path, {"a": [1.5, 2], "b": [3, 4], "who": ["p", "q"], "label": ["x", "y"]})
        found = read(folder, owner="who")
        assert found.arrays["train_inputs"].tolist() == [[1.5, 3], [2, 4]]
        assert (found.classes, found.owners) == (("x", "y"), ("p", "q"))
        assert read(folder, features=("b",)).arrays["train_inputs"].tolist() == [[3], [4]]

    def test_arrays_and_lists_are_read(self, tmp_path: Path) -> None:
        import datasets

        pixels = np.arange(2 * 4 * 5, dtype=np.uint8).reshape(2, 4, 5).tolist()
        features = datasets.Features({"pixels": datasets.Array2D((4, 5), "uint8"), "label": datasets.Value("int64")})
        found = read(saved(tmp_path, {"pixels": pixels, "label": [7, 3]}, features))
        assert found.arrays["train_inputs"].shape == (2, 1, 4, 5)
        assert found.arrays["train_inputs"].dtype == np.uint8
        assert found.classes == ("3", "7")
        found = read(saved(tmp_path / "lists", {"row": [[1.0, 2.0], [3.0, 4.0]], "label": [0.5, 2.5]}), is_value=True)
        assert found.arrays["train_inputs"].tolist() == [[1, 2], [3, 4]]
        assert found.arrays["train_targets"].tolist() == [0.5, 2.5]

    def test_splits_are_parts(self, tmp_path: Path) -> None:
        import datasets

        whole = datasets.Dataset.from_dict({"a": list(range(10)), "label": [0, 1] * 5})
        parts = whole.train_test_split(0.2, seed=1)
        parts.save_to_disk(str(tmp_path / "own"))
        found = read(tmp_path / "own")
        assert [len(found.arrays[f"{part}_targets"]) for part in ("train", "test")] == [8, 2]
        assert "test_inputs" not in read(tmp_path / "own", test="validation").arrays
        assert ": has no split 'training'; set task.train_split; did you mean 'train'?" in refusal(
            tmp_path / "own", train="training"
        )

    @pytest.mark.parametrize(
        ("columns", "choice", "problem"),
        [
            ({"a": [1, 2], "label": [0, 1]}, {"label": "y"}, ": there is no column 'y'"),
            (
                {"a": ["p", "q"], "label": [0, 1]},
                {},
                ", column 'a': is Value('string'); inputs are one column of images",
            ),
            ({"a": [1, None], "label": [0, 1]}, {}, ", column 'a': sample 1 has no value; fill it in, or leave it out"),
            ({"a": [1, 2], "label": [0, None]}, {}, ", column 'label': sample 1 has no value"),
            ({"a": [1.0, float("nan")], "label": [0, 1]}, {}, ", column 'a': sample 1 is not finite"),
            ({"a": [[1], [1, 2]], "label": [0, 1]}, {}, ", column 'a': sample 1 has the shape (2,), and sample 0 (1,)"),
            ({"a": [1, 2], "label": [4, 4]}, {}, ", column 'label': all labels are '4'; a classification needs two"),
            ({"a": [1, 2], "label": [[1], [2]]}, {}, ", column 'label': is List(Value('int64')); it must be a number"),
            (
                {"a": [1, 2], "label": ["x", "y"]},
                {"is_value": True},
                ", column 'label': contains <U1; values to predict",
            ),
            ({"label": [0, 1]}, {}, ": has no column besides label and owner"),
            ({"a": [], "label": []}, {}, ": is empty; save some samples"),
        ],
    )
    def test_a_bad_column_is_refused_in_one_line(
        self, tmp_path: Path, columns: dict[str, list[Any]], choice: dict[str, Any], problem: str
    ) -> None:
        assert refusal(saved(tmp_path, columns), **choice).startswith(problem)

    @pytest.mark.parametrize("column", ["a", "label", "who"])
    def test_images_within_lists_and_in_place_of_labels_are_refused_and_not_decoded(
        self, tmp_path: Path, column: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import datasets

        numbers = datasets.Value("int64")
        of_image = datasets.List(datasets.Image()) if column == "a" else datasets.Image()
        image = {"bytes": b"no image", "path": None}
        columns: dict[str, list[Any]] = {"a": [1, 2], "label": [0, 1], "who": [0, 1]}
        columns[column] = [[image]] * 2 if column == "a" else [image] * 2
        features = datasets.Features({name: of_image if name == column else numbers for name in columns})
        folder = saved(tmp_path, columns, features)
        decoded: list[object] = []
        monkeypatch.setattr(datasets.Image, "decode_example", lambda *given, **more: decoded.append(given))
        found = refusal(folder, features=("a",), owner="who")
        assert found.startswith(f", column {column!r}: is {'List(Image(' if column == 'a' else 'Image('}")
        assert not decoded

    def test_an_image_that_is_none_or_only_a_name_is_refused(self, tmp_path: Path) -> None:
        import datasets

        features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
        images = [{"bytes": b"no image", "path": None}] * 2
        found = refusal(saved(tmp_path, {"image": images, "label": [0, 1]}, features))
        assert found.startswith(", column 'image', sample 0: is no image of a known format")
        found = refusal(saved(tmp_path / "none", {"image": [None, None], "label": [0, 1]}, features))
        assert found.startswith(", column 'image', sample 0: has no image in it")

    @pytest.mark.parametrize("harm", ["cut", "random", "info"])
    def test_a_damaged_folder_is_refused(self, tmp_path: Path, harm: str) -> None:
        folder = saved(tmp_path, {"a": list(range(100)), "label": [0, 1] * 50})
        [data] = folder.glob("*.arrow")
        content = data.read_bytes()
        if harm == "info":
            (folder / "dataset_info.json").write_text("{")
        else:
            data.write_bytes(content[:200] if harm == "cut" else bytes(reversed(content)))
        assert refusal(folder).startswith(": cannot be loaded (")

    def test_arrays_that_are_too_large_are_refused(self, tmp_path: Path) -> None:
        folder = saved(tmp_path, {"a": [[0.5] * 1000] * 300, "label": [0, 1] * 150})
        assert refusal(folder, most_mb=1).startswith(
            ": its samples need 2 MB as arrays, and task.most_mb is 1: raise it"
        )
