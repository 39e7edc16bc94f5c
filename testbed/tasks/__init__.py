"""Learning tasks. Importing this package does not import torch: the launcher lists and checks tasks without it."""

from testbed.tasks.digits import Digits

CATALOGUE = {"digits": Digits}
"""Name in a profile → class of its parameters, whose ``open`` loads data and builds the model."""
