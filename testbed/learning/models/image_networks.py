"""Networks for images: the input is a batch of (channels, height, width), the output a batch of class scores.

None has dropout, and only the last one has buffers. If a paper gives no activation, it is ReLU; if it gives no padding,
there is none.
The order of the layers must not change: it decides which weights a seed draws.
"""

from __future__ import annotations

from torch import nn

_VGG11 = (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M")
"""Filters of 3×3, and pooling: configuration A of Simonyan and Zisserman, 2015."""


def small_cnn(channels: int = 1, height: int = 8, width: int = 8, outputs: int = 10) -> nn.Module:
    """6,090 parameters, for 8×8 images. Not from a paper: the smallest CNN that learns the embedded digits well.

    Images may have other sizes, from 4×4 on.
    """
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (height // 4) * (width // 4), outputs),
    )


def small_mlp() -> nn.Module:
    """2,410 parameters, for 8×8 images. Not from a paper, and the cheapest here.

    For many short jobs, and for devices with one label each, from which the small CNN learns nothing for a hundred
    rounds.
    """
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def cnn() -> nn.Module:
    """21,840 parameters, for 28×28 images: the standard CNN of the AUDG/PSURDG paper (Hao et al. 2025, section VI).

    The paper gives two convolutions, two fully connected layers and the total; the network of PyTorch's MNIST example,
    without its dropout, has that total.
    """
    return nn.Sequential(
        nn.Conv2d(1, 10, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(10, 20, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(320, 50),
        nn.ReLU(),
        nn.Linear(50, 10),
    )


def over_cnn() -> nn.Module:
    """663,226 parameters, for 28×28 images: the over-parameterised CNN of the AUDG/PSURDG paper (section VI).

    The paper gives two convolutions, two fully connected layers and a total of 663,160. Only unusual widths
    (such as 26, 98 and 260) have exactly that; the usual 32 and 64 filters of 3×3, with 400, have 66 (0.01 %) more.
    """
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1600, 400),
        nn.ReLU(),
        nn.Linear(400, 10),
    )


def lenet5() -> nn.Module:
    """19,670 parameters, for 28×28 images: LeNet-5 as in ASAFL (Chen et al. 2024, Table III).

    C: [6, M, 16, M], F: [256, 64, 10]. The total in the paper (Table II) implies kernels of 5×5.
    """
    return nn.Sequential(
        nn.Conv2d(1, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def vgg11() -> nn.Module:
    """9,354,378 parameters, for 3×32×32 images: VGG-11 as in ASAFL (Chen et al. 2024, Table III).

    VGG-11's features without batch normalisation (with it, the total would exceed that of Table II by 5,504), F: [512,
    256, 10]. With torch's default weights, the scores are almost the same for every image, and it does not learn.
    So its weights are Kaiming's (2015), as in torchvision, and its biases 0.
    """
    layers: list[nn.Module] = []
    channels = 3
    for entry in _VGG11:
        if isinstance(entry, int):
            layers += [nn.Conv2d(channels, entry, 3, padding=1), nn.ReLU()]
            channels = entry
        else:
            layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)]
    for layer in layers:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def eafl_cnn() -> nn.Module:
    """28,938 parameters, for 28×28 images: the CNN that EAFL trains on MNIST (Zhou et al. 2024, section VI).

    The paper says: two convolutional layers, both with ReLU. Widths, kernels, pooling and the fully connected layer
    are our choice.
    """
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1568, 10),
    )


def lenet() -> nn.Module:
    """62,006 parameters, for 3×32×32 images: the "classical LeNet" that EAFL trains on CIFAR-10 (section VI).

    LeNet-5 (LeCun et al. 1998) with three colours, and with ReLU and max pooling, as is usual today.
    """
    return nn.Sequential(
        nn.Conv2d(3, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def femnist_cnn() -> nn.Module:
    """590,270 parameters, for 28×28 images of 62 classes: FEMNIST in AsyncFedED (Wang et al. 2022, appendix B.1).

    The paper says: two convolutions and a pooling layer, and one fully connected layer. Widths, kernels and the
    position of the pooling layer, after both convolutions, are our choice.
    """
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(9216, 62),
    )


def small_cnn_bn() -> nn.Module:
    """6,186 parameters and 96 numbers in buffers, for 8×8 images: the small CNN with batch normalisation.

    For quick runs that show what buffers do.
    """
    layers = list(small_cnn().children())
    return nn.Sequential(*layers[:1], nn.BatchNorm2d(16), *layers[1:4], nn.BatchNorm2d(32), *layers[4:])
