"""The constants of the bounds, and how devices are weighted: what a user gives beside the traces."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.common.errors import ProfileError
from testbed.common.parameters import param

WEIGHTS = ("samples", "equal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """The constants of the bounds, which a trace does not have."""

    L: float = param(
        meaning="smoothness of each device's loss: gradients differ by at most L·‖w − v‖; the largest eigenvalue of a"
        " Hessian, by power iteration",
        above=0,
    )
    mu: float = param(
        meaning="μ, strong convexity of each device's loss, at most L; the smallest eigenvalue of a Hessian, or the"
        " weight of an L2 penalty on a convex loss",
        above=0,
    )
    R: float = param(
        meaning="radius: ‖w − w*‖ ≤ R for every version w; the distance from the first model to a fully trained one",
        at_least=0,
    )
    G: float = param(
        meaning="gradient bound: ‖∇f_i(w)‖ ≤ G on every device; the largest gradient seen in training",
        at_least=0,
    )
    phi: float = param(
        meaning="φ, heterogeneity (not a device's φ_i): ‖w_i* − w*‖ ≤ φ; the largest distance from a model trained on"
        " one device's data to one trained on all, 0 where all have the same data",
        at_least=0,
    )
    eta: float = param(meaning="η, local learning rate; default: training.lr of the run's profile.toml", above=0)

    def __post_init__(self) -> None:
        if self.mu > self.L:
            raise ProfileError(
                "constants",
                "mu",
                f"is {self.mu:g}; it must be at most L, which is {self.L:g}: no loss is more convex than smooth",
            )
