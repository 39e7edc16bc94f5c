"""The data sets that are read from files: names, downloads, checksums, means and deviations.

Checksums are those in torchvision's source code (MNIST, Fashion-MNIST, QMNIST, CIFAR-10's pickles), those on the
authors' page (CIFAR-10's records), or that of the text in Karpathy's repository. Debian compresses Fashion-MNIST
itself: the second checksums are those of its package.
"""

from __future__ import annotations

from functools import partial

from testbed.learning.data.readers import cifar10, data_file, femnist, mnist, shakespeare
from testbed.learning.data.readers.source import Remote, Source

_MNIST: data_file.Known = {
    "train-images-idx3-ubyte.gz": ("f68b3c2dcbeaaa9fbdd348bbdeb94873",),
    "train-labels-idx1-ubyte.gz": ("d53e105ee54ea40749a09fcbcd1e9432",),
    "t10k-images-idx3-ubyte.gz": ("9fb629c4189551a2d022fa330f9573f3",),
    "t10k-labels-idx1-ubyte.gz": ("ec29112dd5afa0611ce80d1b7f02629c",),
}
_QMNIST: data_file.Known = {
    "qmnist-train-labels-idx2-int.gz": ("0058f8dd561b90ffdd0f734c6a30e5e4",),
    "qmnist-test-labels-idx2-int.gz": ("5b5b05890a5e13444e108efe57b788aa",),
}
_FASHION: data_file.Known = {
    "train-images-idx3-ubyte.gz": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "cf8536b0aa1a6ac5fa3f23001093305c"),
    "train-labels-idx1-ubyte.gz": ("25c81989df183df01b3e8a0aad5dffbe", "10bea18fdb374794d4bb42e356e600c9"),
    "t10k-images-idx3-ubyte.gz": ("bef4ecab320f06d8554ea6380940ec79", "f78720b4224f21cce2f2ccf2d7a94c9a"),
    "t10k-labels-idx1-ubyte.gz": ("bb300cfdad3c16e7a12a480ee83cd310", "0d30e22e447f3c33dab9ed536400ac01"),
}
_AT_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")
_AT_QMNIST = ("https://raw.githubusercontent.com/facebookresearch/qmnist/master/",)
_AT_FASHION = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
_AT_CIFAR = "https://www.cs.toronto.edu/~kriz/"
_AT_SHAKESPEARE = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
_DIGITS = tuple("0123456789")
_CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


def _remotes(known: data_file.Known, places: tuple[str, ...], optional: str = "") -> tuple[Remote, ...]:
    return tuple(
        Remote(name=name, md5=sums[0], urls=tuple(place + name for place in places), optional=optional)
        for name, sums in known.items()
    )


def _scaled(*shares: float) -> tuple[float, ...]:
    """Convert means, which papers give for values from 0 to 1, to the unit of bytes."""
    return tuple(255 * share for share in shares)


_ALL = (
    Source(
        name="mnist",
        title="handwritten digits, 60,000 + 10,000 grey images of 28 × 28, 10 classes, 836 writers (from QMNIST)",
        licence="CC BY-SA 3.0, writers BSD-style",
        citation="LeCun et al. 1998; Yadav and Bottou 2019 (writers)",
        megabytes=12,
        folders=("mnist", "MNIST/raw"),
        find=partial(mnist.find, {**_MNIST, **_QMNIST}, _DIGITS),
        remotes=_remotes(_MNIST, _AT_MNIST) + _remotes(_QMNIST, _AT_QMNIST, optional="who wrote each digit"),
        mean=_scaled(0.1307),
        std=_scaled(0.3081),
    ),
    Source(
        name="fashion_mnist",
        title="clothes, 60,000 + 10,000 grey images of 28 × 28, 10 classes",
        licence="MIT",
        citation="Xiao, Rasul and Vollgraf 2017",
        megabytes=31,
        folders=("fashion_mnist", "fashion-mnist", "FashionMNIST/raw"),
        find=partial(mnist.find, _FASHION, _CLOTHES),
        remotes=_remotes(_FASHION, _AT_FASHION),
        also="; or install Debian's package dataset-fashion-mnist",
        mean=_scaled(0.2860),
        std=_scaled(0.3530),
    ),
    Source(
        name="cifar10",
        title="photographs, 50,000 + 10,000 colour images of 32 × 32, 10 classes",
        licence="none stated; free for research",
        citation="Krizhevsky 2009",
        megabytes=170,
        folders=(
            "cifar10",
            *(f"{base}/cifar-10-batches-{kind}" for base in ("cifar10", ".") for kind in ("bin", "py")),
            ".",
        ),
        find=cifar10.find,
        remotes=_remotes({"cifar-10-binary.tar.gz": cifar10.KNOWN["cifar-10-binary.tar.gz"]}, (_AT_CIFAR,)),
        mean=_scaled(0.4914, 0.4822, 0.4465),
        std=_scaled(0.2470, 0.2435, 0.2616),
    ),
    Source(
        name="femnist",
        title="handwritten digits and letters by writer, grey images of 28 × 28, 62 classes",
        licence="NIST Special Database 19: public domain; LEAF BSD-2-Clause",
        citation="Caldas et al. 2018; Cohen et al. 2017",
        megabytes=0,
        folders=("femnist",),
        find=femnist.find,
        by_hand="clone https://github.com/TalwalkarLab/leaf, run ./preprocess.sh"
        " -s niid --sf 0.05 -k 0 -t sample in its folder data/femnist, and put the resulting folders train and test"
        " (with .json files) from data/femnist/data into {folder}; or put a file femnist_leaf_sub.npz there (arrays"
        " x, y, writer, split and writer_ids)",
        mean=(255.0,),
        std=(-255.0,),  # bright ink on dark paper, as in MNIST: the input of the network is 1 − x ÷ 255
    ),
    Source(
        name="shakespeare",
        title="the next character after 80 of Shakespeare's, by role",
        licence="public domain",
        citation="Karpathy 2015 (the text); McMahan et al. 2017 and Caldas et al. 2018 (the task)",
        megabytes=1,
        folders=("shakespeare",),
        find=shakespeare.find,
        remotes=(Remote(name=shakespeare.TEXT, md5=shakespeare.KNOWN[shakespeare.TEXT][0], urls=(_AT_SHAKESPEARE,)),),
    ),
)
SOURCES = {source.name: source for source in _ALL}
