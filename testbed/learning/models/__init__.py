"""Networks by name. Importing this package does not import torch: the launcher lists and checks names without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The description of a network. ``testbed.learning.models.building`` builds it."""

    title: str
    inputs: tuple[int, ...]
    """Shape of one sample; for a text, the length in LEAF (any length is possible)."""
    outputs: int
    """Number of outputs for one sample."""
    parameters: int
    buffers: int = 0
    """Floating-point numbers in buffers, which are part of the model, too (``task.buffers``)."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Arguments of its builder, with the values for which the figures above are true."""
    adapts: tuple[str, ...] = ()
    """Arguments of its builder for the shape of a sample, if it adapts to samples and outputs (``fitting``)."""
    flops: int = 0
    """FLOPs of training on one sample of these sizes, for a network that adapts: devices have speeds for these."""


NETWORKS = {
    "small-cnn": Network(
        title="small CNN for 8×8 images",
        inputs=(1, 8, 8),
        outputs=10,
        parameters=6_090,
        adapts=("channels", "height", "width"),
        flops=486_912,
    ),
    "small-mlp": Network(title="small perceptron for 8×8 images", inputs=(1, 8, 8), outputs=10, parameters=2_410),
    "cnn": Network(title="the CNN of AUDG and PSURDG", inputs=(1, 28, 28), outputs=10, parameters=21_840),
    "over-cnn": Network(
        title="the over-parameterised CNN of AUDG and PSURDG", inputs=(1, 28, 28), outputs=10, parameters=663_226
    ),
    "lenet5": Network(title="LeNet-5 as in ASAFL", inputs=(1, 28, 28), outputs=10, parameters=19_670),
    "vgg11": Network(title="VGG-11 as in ASAFL", inputs=(3, 32, 32), outputs=10, parameters=9_354_378),
    "eafl-cnn": Network(title="the CNN of EAFL", inputs=(1, 28, 28), outputs=10, parameters=28_938),
    "lenet": Network(title="LeNet for colour images, as in EAFL", inputs=(3, 32, 32), outputs=10, parameters=62_006),
    "femnist-cnn": Network(title="the CNN of AsyncFedED", inputs=(1, 28, 28), outputs=62, parameters=590_270),
    "mlp": Network(
        title="the perceptron of AsyncFedED",
        inputs=(60,),
        outputs=10,
        parameters=6_314,
        adapts=("inputs",),
        flops=29_568,
    ),
    "char-lstm": Network(
        title="next character, as in LEAF and AsyncFedED",
        inputs=(80,),
        outputs=80,
        parameters=819_920,
        sizes={"classes": 80},
    ),
    "linear": Network(
        title="linear regression and linear SVM, as in AFL",
        inputs=(10,),
        outputs=1,
        parameters=11,
        sizes={"inputs": 10},
        adapts=("inputs",),
        flops=40,
    ),
    "small-cnn-bn": Network(
        title="small CNN for 8×8 images, with batch normalisation",
        inputs=(1, 8, 8),
        outputs=10,
        parameters=6_186,
        buffers=96,
    ),
    "resnet18": Network(
        title="ResNet-18 for 32×32 images, with group normalisation",
        inputs=(3, 32, 32),
        outputs=10,
        parameters=11_173_962,
    ),
    "resnet18-bn": Network(
        title="ResNet-18 for 32×32 images, with batch normalisation",
        inputs=(3, 32, 32),
        outputs=10,
        parameters=11_173_962,
        buffers=9_600,
    ),
    "mobilenet": Network(
        title="small network of inverted residuals as in MobileNetV2, with group normalisation",
        inputs=(3, 32, 32),
        outputs=10,
        parameters=96_650,
    ),
    "mobilenet-bn": Network(
        title="small network of inverted residuals as in MobileNetV2, with batch normalisation",
        inputs=(3, 32, 32),
        outputs=10,
        parameters=96_650,
        buffers=4_160,
    ),
    "tiny-transformer": Network(
        title="next character, by a transformer of two layers",
        inputs=(80,),
        outputs=80,
        parameters=110_336,
        sizes={"classes": 80},
    ),
}
"""Name in a profile → network."""
