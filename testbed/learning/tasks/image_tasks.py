"""Image classification from files: MNIST, Fashion-MNIST, CIFAR-10 and FEMNIST with networks by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from testbed.common.parameters import Named, param
from testbed.learning.data.dataset import DataSet
from testbed.learning.tasks import networks
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.setting import Setting

if TYPE_CHECKING:
    from torch import nn


@dataclass(kw_only=True)
class _Images(Recipe):
    """A data set of images and a network, each by name."""

    stored: ClassVar[str]
    model: str

    def data(self, setting: Setting) -> DataSet:
        from testbed.learning.data import loader  # most commands do not need readers and downloads

        return loader.load(self.stored, progress=setting.progress)

    def network(self, data: DataSet) -> nn.Module:
        from testbed.learning.models import building

        return building.build(self.model)


@dataclass(kw_only=True)
class Mnist(_Images):
    """MNIST: 60,000 + 10,000 handwritten digits, 28×28; natural split by writer (QMNIST)."""

    stored: ClassVar[str] = "mnist"
    model: str = networks.one_of("cnn", "over-cnn", "lenet5", "eafl-cnn")


@dataclass(kw_only=True)
class FashionMnist(_Images):
    """Fashion-MNIST: 60,000 + 10,000 pictures of clothes, 28×28, 10 classes."""

    stored: ClassVar[str] = "fashion_mnist"
    model: str = networks.one_of("cnn", "over-cnn", "lenet5", "eafl-cnn")


@dataclass(kw_only=True)
class Cifar10(_Images):
    """CIFAR-10: 50,000 + 10,000 colour pictures (or a subset), 32×32, 10 classes."""

    stored: ClassVar[str] = "cifar10"
    model: str = networks.one_of("lenet", "vgg11", "resnet18", "resnet18-bn", "mobilenet", "mobilenet-bn")


@dataclass(kw_only=True)
class Femnist(_Images):
    """FEMNIST (LEAF): handwritten digits and letters, 62 classes, by writer."""

    stored: ClassVar[str] = "femnist"
    model: str = networks.one_of("femnist-cnn")
    split: Named = param("natural", "how training samples are assigned to devices; see list splits")
