"""Learning tasks. Importing this package does not import torch: the launcher lists, checks and deals without it."""

from testbed.tasks.digits import Digits
from testbed.tasks.images import Cifar10, FashionMnist, Femnist, Mnist
from testbed.tasks.linear import Regression, Svm
from testbed.tasks.recipe import Recipe
from testbed.tasks.shakespeare import Shakespeare
from testbed.tasks.synthetic import Synthetic

CATALOGUE: dict[str, type[Recipe]] = {
    "digits": Digits,
    "mnist": Mnist,
    "fashion_mnist": FashionMnist,
    "cifar10": Cifar10,
    "femnist": Femnist,
    "shakespeare": Shakespeare,
    "synthetic": Synthetic,
    "regression": Regression,
    "svm": Svm,
}
"""Name in a profile → class of its parameters."""
BASE = Recipe
