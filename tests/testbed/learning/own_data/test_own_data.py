"""Tasks for a user's own data: test samples, normalisation, network, loss, cache and profile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from testbed.common.errors import ProfileError, UserError
from testbed.common.parameters import ParameterError
from testbed.learning.data import folders
from testbed.learning.data.dataset import DataSet
from testbed.learning.models import flops
from testbed.learning.own_data.held_out import drawn, moments
from testbed.learning.tasks.own_data_tasks import Csv, ImageFolder, Npz
from testbed.learning.tasks.setting import Setting
from testbed.learning.training.network_task import NetworkTask
from testbed.loading import profile_loader
from tests.testbed.examples import write_profile
from tests.testbed.learning.data.files import RecordedProgress

SETTING = Setting(devices=3, data_seed=1, model_seed=1)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    """Two features, the first around 1000, a constant one, and two classes."""
    rng = np.random.default_rng(3)
    rows = [f"{1000 + rng.normal() + 2 * (i % 2):.4f},{rng.normal():.4f},7,{['no', 'yes'][i % 2]}" for i in range(200)]
    path = tmp_path / "own.csv"
    path.write_text("\n".join(["a,b,c,label", *rows]))
    return path


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    np.savez(tmp_path / "own.npz", x=rng.integers(0, 256, (100, 8, 8), np.uint8), y=rng.integers(0, 3, 100))
    return tmp_path / "own.npz"


def opened(task: Csv | Npz | ImageFolder, setting: Setting = SETTING) -> NetworkTask:
    found = task.open(setting)
    assert isinstance(found, NetworkTask)
    return found


# ---- training and test samples


def test_a_fifth_is_held_out_for_testing_unless_another_share_is_given(csv: Path) -> None:
    for share, testing in ((None, 40), (0.5, 100)):
        data = Csv(file=str(csv), label="label", test_share=share).dataset(SETTING)
        assert (len(data.train), len(data.test)) == (200 - testing, testing)


def test_the_data_seed_draws_the_test_samples(csv: Path) -> None:
    def drawn_by(seed: int) -> list[Any]:
        data = Csv(file=str(csv), label="label").dataset(Setting(devices=3, data_seed=seed, model_seed=seed + 7))
        return np.asarray(data.test.inputs[np.arange(len(data.test))]).tolist()

    assert drawn_by(1) == drawn_by(1)
    assert drawn_by(1) != drawn_by(2)


def test_training_and_test_samples_are_all_samples_and_never_the_same() -> None:
    train, test = drawn(50, 0.3, "x", 4)
    assert sorted([*train, *test]) == list(range(50))
    assert len(test) == 15


@pytest.mark.parametrize(("samples", "share"), [(2, 0.2), (1, 0.5), (3, 0.9)])
def test_too_few_samples_to_hold_some_out_are_refused(samples: int, share: float) -> None:
    with pytest.raises(UserError, match=r"own.csv: has . samples?, of which a share of .* cannot be held out"):
        drawn(samples, share, "own.csv", 1)


def test_a_share_beside_a_test_part_is_refused(csv: Path) -> None:
    with pytest.raises(ParameterError, match="test_share is given, but the data has test samples of its own"):
        Csv(file=str(csv), label="label", test=str(csv), test_share=0.2).dataset(SETTING)


# ---- normalisation


def test_features_are_normalised_by_the_moments_of_the_training_samples(csv: Path) -> None:
    task = opened(Csv(file=str(csv), label="label"))
    inputs, _ = task._batch(task._data.train, np.arange(160))
    assert inputs.mean(dim=0).tolist() == pytest.approx([0, 0, 0], abs=1e-3)
    assert inputs.std(dim=0).tolist() == pytest.approx([1, 1, 0], abs=1e-2)
    tested, _ = task._batch(task._data.test, np.arange(40))
    assert abs(float(tested.mean(dim=0)[0])) > 1e-3


def test_inputs_stay_as_they_are_without_normalisation(csv: Path, npz: Path) -> None:
    task = opened(Csv(file=str(csv), label="label", normalise=False))
    assert task._batch(task._data.train, np.arange(9))[0][:, 2].tolist() == [7] * 9
    images = opened(Npz(file=str(npz), normalise=False))
    batch = images._batch(images._data.train, np.arange(9))[0]
    assert batch.dtype == torch.float32
    assert 200 < batch.max() <= 255


def test_moments_are_those_of_channels_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.learning.own_data.held_out._PIECE", 100)
    images = np.random.default_rng(0).integers(0, 256, (50, 3, 4, 5), np.uint8)
    mean, std = moments(images)
    assert mean == pytest.approx(images.mean(axis=(0, 2, 3)))
    assert std == pytest.approx(images.std(axis=(0, 2, 3)))
    large = 1e8 + np.random.default_rng(0).normal(size=(1000, 1))
    assert moments(large)[1] == pytest.approx([large.std()], rel=1e-6)


def test_values_to_predict_are_normalised_in_the_loss_and_not_in_the_mean_squared_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 2))
    np.savez(tmp_path / "v.npz", x=x, y=5000 + 300 * x[:, 0])
    task = opened(Npz(file=str(tmp_path / "v.npz"), target="value", model="linear"))
    vector = np.zeros(task.size, np.float32)
    scores = task.evaluate(vector)
    values = task._data.test.targets
    assert scores["mse"] == pytest.approx(((values - task._data.train.targets.mean()) ** 2).mean(), rel=1e-3)
    assert scores["loss"] == pytest.approx(1.0, rel=0.3)
    task.model.load(vector)
    task.gradient(np.arange(320))
    assert float(task.model.gradient.abs().max()) < 10
    assert task.labels is None


# ---- networks


def test_a_network_adapts_to_samples_and_classes(csv: Path, npz: Path) -> None:
    assert opened(Csv(file=str(csv), label="label", hidden=(5,))).size == 3 * 5 + 5 + 5 * 2 + 2
    assert opened(Csv(file=str(csv), label="label", model="linear")).size == 3 * 2 + 2
    assert opened(Npz(file=str(npz), model="small-cnn")).size == 6_090 - 7 * 129
    assert opened(Npz(file=str(npz))).size == 64 * 64 + 64 + 64 * 32 + 32 + 32 * 3 + 3


def test_the_catalogue_of_devices_is_for_networks_of_their_own_size(npz: Path, tmp_path: Path) -> None:
    assert opened(Npz(file=str(npz), model="small-cnn")).work == 1.0  # 3 classes instead of 10 are a little less
    np.savez(tmp_path / "large.npz", x=np.zeros((40, 16, 16)), y=np.arange(40) % 10)
    large = opened(Npz(file=str(tmp_path / "large.npz"), model="small-cnn"))
    assert large.work == pytest.approx(4.0, rel=0.01)


def test_the_flops_of_a_network_of_the_users_own_are_not_counted_when_the_task_is_opened(
    npz: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(64, 3))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs.flatten(1) @ self.weight

    class Own(Npz):
        def network(self, data: DataSet) -> torch.nn.Module:
            return Scaled()

    class Built(Npz):
        def build_network(self, data: DataSet) -> torch.nn.Module:
            return Scaled()

    def counted(*given: object) -> tuple[int, int]:
        raise AssertionError("the counter of torch was used")

    monkeypatch.setattr(flops, "by_torch", counted)
    for task in (Own(file=str(npz), model="small-cnn"), Built(file=str(npz), model="small-cnn")):
        assert opened(task).work == 1.0
        assert opened(task).size == 64 * 3


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model": "lenet"}, "model is lenet, which needs samples of 3×32×32 and 10 outputs; these samples are 1×8×8"),
        (
            {"model": "linear", "hidden": (5,)},
            "hidden is given, but the network is linear, and only mlp has such layers",
        ),
    ],
)
def test_a_network_that_does_not_fit_is_refused_with_its_key(npz: Path, changes: Any, problem: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Npz(file=str(npz), **changes).dataset(SETTING)
    assert str(caught.value).startswith(problem)


def test_folders_of_images_have_no_values(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="target is value; the folder of an image is a class"):
        ImageFolder(folder=str(tmp_path), target="value").dataset(SETTING)


def test_pixels_are_divided_by_255_without_normalisation(tmp_path: Path) -> None:
    for name, colour in (("black", 0), ("white", 255)):
        (tmp_path / "own" / name).mkdir(parents=True)
        for number in range(5):
            Image.new("L", (4, 4), colour).save(tmp_path / "own" / name / f"{number}.png")
    task = opened(ImageFolder(folder=str(tmp_path / "own"), colours="grey", normalise=False))
    assert set(task._batch(task._data.train, np.arange(8))[0].unique().tolist()) == {0.0, 1.0}


def test_owners_are_those_of_the_natural_split(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("a,who,label\n" + "".join(f"{i},p{i % 5},{i % 2}\n" for i in range(100)))
    task = opened(Csv(file=str(path), label="label", owner="who", split="natural"))
    assert {len(np.unique(task._data.train.owners[shard])) for shard in task.shards} == {1}  # type: ignore[index]
    unknown = Csv(file=str(path), label="label", features=("a",), split="natural")
    with pytest.raises(
        ParameterError, match=r"does not contain the owners .*; name them by task.owner, or use another"
    ):
        unknown.open(SETTING)


# ---- cache


def test_a_file_is_parsed_once_for_each_of_its_states(csv: Path) -> None:
    def was_read(**changes: Any) -> bool:
        progress = RecordedProgress()
        Csv(file=str(csv), label="label", **changes).dataset(Setting(devices=3, progress=progress))
        return any(what.startswith("reading") for what, *_ in progress.steps)

    assert was_read()
    assert not was_read()
    assert not was_read(test_share=0.4)  # another share needs no other arrays
    assert was_read(features=("a",))
    times = csv.stat()
    csv.write_text(csv.read_text().replace("yes", "YES"))
    os.utime(csv, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert was_read()


def test_the_samples_are_mapped_and_not_copied(csv: Path) -> None:
    task = opened(Csv(file=str(csv), label="label"))
    every = task._data.train.inputs._every  # type: ignore[attr-defined]
    assert isinstance(every.base, np.memmap)
    assert not every.flags.writeable


def test_the_digest_follows_the_content_and_not_the_place(csv: Path, tmp_path: Path) -> None:
    def digest(path: Path) -> str:
        return Csv(file=str(path), label="label").open(SETTING).data_sha256

    first = digest(csv)
    copy = tmp_path / "copy.csv"
    copy.write_text(csv.read_text())
    assert digest(copy) == first != ""
    copy.write_text(csv.read_text().replace("1000.", "1001.", 1).replace("999.", "998.", 1))
    assert digest(copy) != first


def test_a_missing_file_is_named_before_anything_is_loaded(tmp_path: Path) -> None:
    for task in (Csv(file=str(tmp_path / "a.csv"), label="x"), Npz(file=str(tmp_path / "a.npz"))):
        with pytest.raises(UserError, match=r"a\.(csv|npz): cannot be read: No such file .* relative to the profile"):
            task.dataset(SETTING)


# ---- profiles


def test_the_path_of_a_file_is_relative_to_the_profile(tmp_path: Path) -> None:
    path = write_profile(
        tmp_path,
        'strategy = "fedavg"\ndevices = [{ profile = "rpi4", count = 3 }]\n'
        '[task]\nname = "csv"\nfile = "data/own.csv"\nlabel = "kind"\n',
    )
    experiment = profile_loader.load(path)  # the file need not be there to read a profile
    assert experiment.task_parameters["file"] == str(tmp_path / "data" / "own.csv")
    assert experiment.task_parameters["model"] == "mlp"
    assert "test" not in experiment.task_parameters


def test_a_path_that_cannot_be_one_is_refused_with_its_key(tmp_path: Path) -> None:
    text = 'strategy = "fedavg"\ndevices = [{ profile = "rpi4" }]\n'
    path = write_profile(tmp_path, text + '[task]\nname = "csv"\nfile = "a\\u0000b"\nlabel = "kind"\n')
    with pytest.raises(ProfileError, match=r"task\.file is .a"):
        profile_loader.load(path)


@pytest.mark.parametrize(
    ("name", "key"), [("csv", "file"), ("npz", "file"), ("images", "folder"), ("huggingface", "folder")]
)
def test_the_path_is_required(tmp_path: Path, name: str, key: str) -> None:
    text = f'strategy = "fedavg"\ndevices = [{{ profile = "rpi4" }}]\ntask = "{name}"\n'
    with pytest.raises(ProfileError, match=f"task.{key} is missing"):
        profile_loader.load(write_profile(tmp_path, text))


def test_the_folder_of_the_cache_is_that_of_other_data(csv: Path) -> None:
    Csv(file=str(csv), label="label").dataset(SETTING)
    [folder] = folders.arrays().iterdir()
    assert folder.name.startswith("csv-")
