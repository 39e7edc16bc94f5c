"""Which networks of the catalogue fit samples of a shape, and the sizes with which they are built for them.

A network either adapts, because its builder takes the shape of a sample and the number of outputs, or it fits only the
one shape and the number of outputs that its entry in the catalogue has. Networks for vectors (``adapts = ("inputs",)``)
take images, too, row by row. No torch here: the launcher checks without it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from testbed.learning.models import NETWORKS

_LEAST_SIDE = 4
"""Two poolings halve an image twice."""
_TEXT = ("char-lstm",)
"""Networks whose inputs are numbers of characters."""


def misfit(name: str, shape: tuple[int, ...], outputs: int, among: Iterable[str]) -> str:
    """Return why a network does not fit, and which ones of ``among`` do; empty if it fits."""
    if _fits(name, shape, outputs):
        return ""
    fitting = ", ".join(other for other in among if _fits(other, shape, outputs))
    size = "×".join(map(str, shape))
    network = NETWORKS[name]
    needs = "images of at least 4×4" if network.adapts else "×".join(map(str, network.inputs))
    needed = needs if network.adapts else f"samples of {needs} and {network.outputs} outputs"
    return f"needs {needed}; these samples are {size}, for {outputs} output{'s' * (outputs != 1)}: use {fitting}"


def sizes(name: str, shape: tuple[int, ...], outputs: int) -> dict[str, int]:
    """Return the arguments of the builder of a network that fits."""
    network = NETWORKS[name]
    if not network.adapts:
        return {}
    takes = (math.prod(shape),) if len(network.adapts) == 1 else shape
    return {**dict(zip(network.adapts, takes, strict=True)), "outputs": outputs}


def takes_vectors(name: str) -> bool:
    """Whether a network that adapts reads a sample as a row of numbers."""
    return len(NETWORKS[name].adapts) == 1


def _fits(name: str, shape: tuple[int, ...], outputs: int) -> bool:
    network = NETWORKS[name]
    if not network.adapts:
        return name not in _TEXT and (network.inputs, network.outputs) == (shape, outputs)
    return takes_vectors(name) or (len(shape) == len(network.adapts) and min(shape[1:]) >= _LEAST_SIDE)
