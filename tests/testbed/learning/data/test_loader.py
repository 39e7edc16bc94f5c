from __future__ import annotations

from pathlib import Path

import pytest

from testbed.common.errors import UserError
from testbed.learning.data import folders
from testbed.learning.data.data_sources import SOURCES
from testbed.learning.data.loader import described, load
from tests.test_layering import IMPORTS, below
from tests.testbed.learning.data.files import digits, idx, images, labels, write

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def of_size(count: int) -> dict[str, bytes]:
    """Return a data set that differs from others in its number of samples."""
    return digits() | {NAMES[0]: idx(images(count)), NAMES[1]: idx(labels(count))}


def test_places_are_searched_in_order(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "system/fashion-mnist", of_size(1))
    assert len(load("fashion_mnist", None).train) == 1
    write(tmp_path / "cache/edgebed/data/fashion_mnist", of_size(2))
    assert len(load("fashion_mnist", None).train) == 2
    assert len(load("fashion_mnist", folder).train) == 2, "the given folder is empty: the next place"
    write(tmp_path / "variable/fashion_mnist", of_size(3))
    monkeypatch.setenv(folders.FOLDER, str(tmp_path / "variable"))
    assert len(load("fashion_mnist", None).train) == 3
    write(folder / "fashion_mnist", of_size(4))
    assert len(load("fashion_mnist", folder).train) == 4, "the option wins over the environment"


def test_a_given_folder_that_does_not_exist_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="nowhere: --data-dir names this folder, but it does not exist"):
        load("mnist", tmp_path / "nowhere")
    monkeypatch.setenv(folders.FOLDER, str(tmp_path / "neither"))
    with pytest.raises(UserError, match="neither: EDGEBED_DATA names this folder, but it does not exist"):
        load("mnist", None)


def test_an_empty_variable_names_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(folders.FOLDER, "")
    with pytest.raises(UserError, match="mnist is not in"):
        load("mnist", None)


def test_an_unknown_data_set_is_refused_with_the_most_similar_name() -> None:
    with pytest.raises(UserError, match="no data set 'minst'; did you mean 'mnist'"):
        load("minst", None)


@pytest.mark.parametrize("missing", NAMES)
def test_only_the_missing_file_is_named(folder: Path, tmp_path: Path, missing: str) -> None:
    contents = digits()
    del contents[missing]
    write(folder / "mnist", contents)
    write(tmp_path / "cache/edgebed/data/mnist", digits())  # not used instead
    with pytest.raises(UserError, match=rf"given/mnist: {missing}\.gz of mnist is missing; put it there \(from https"):
        load("mnist", folder)


def test_without_a_network_the_error_names_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load("mnist", None)
    text = str(caught.value)
    assert "EDGEBED_OFFLINE forbids a download" in text
    assert ", ".join(f"{name}.gz" for name in NAMES) in text
    assert "from https://ossci-datasets.s3.amazonaws.com/mnist/" in text
    assert f"into {tmp_path / 'cache/edgebed/data/mnist'} (or into FOLDER/mnist, and use --data-dir FOLDER)" in text
    assert "to know who wrote each digit, qmnist-train-labels-idx2-int.gz, qmnist-test-labels-idx2-int.gz" in text


def test_the_error_names_the_folder_of_the_user(folder: Path) -> None:
    with pytest.raises(UserError, match=f"cifar-10-binary.tar.gz .* into {folder}/cifar10$"):
        load("cifar10", folder)


def test_the_error_does_not_name_files_in_the_cache(tmp_path: Path) -> None:
    write(tmp_path / "cache/edgebed/data/mnist", {NAMES[0]: b"x", NAMES[3]: b"x"}, compressed=True)
    with pytest.raises(UserError, match=f"put {NAMES[1]}.gz, {NAMES[2]}.gz .from"):
        load("mnist", None)


def test_the_error_for_femnist_explains_how_to_make_it_with_leaf(folder: Path) -> None:
    with pytest.raises(UserError) as caught:
        load("femnist", folder)
    text = str(caught.value)
    assert "there is no download for it" in text
    assert "./preprocess.sh -s niid" in text
    assert f"train and test (with .json files) from data/femnist/data into {folder / 'femnist'};" in text


@pytest.mark.parametrize("name", SOURCES)
def test_every_download_has_a_checksum_and_an_address(name: str) -> None:
    for remote in SOURCES[name].remotes:
        assert len(bytes.fromhex(remote.md5)) == 16
        assert all(url.startswith(("https://", "http://")) for url in remote.urls)
        assert remote.urls


@pytest.mark.parametrize("file", [file for file in IMPORTS if file.startswith("testbed/learning/data/")])
def test_data_sets_do_not_depend_on_traces(file: str) -> None:
    assert not [module for module in IMPORTS[file] if below(module, "testbed.traces")]


def test_every_data_set_has_a_description() -> None:
    lines = dict(described())
    assert set(lines) == {"mnist", "fashion_mnist", "cifar10", "femnist", "shakespeare"}
    assert all("cite" in line and "licence" in line for line in lines.values())
