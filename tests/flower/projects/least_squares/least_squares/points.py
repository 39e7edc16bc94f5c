"""Points on a plane with noise; partitions have 20, 30, 40, … of them."""

import numpy as np

PLANE = np.array([1.0, -2.0, 0.5])


def points(partition: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(partition)
    inputs = rng.normal(size=(20 + 10 * partition, 3))
    return inputs, inputs @ PLANE + 3.0 + 0.01 * rng.normal(size=len(inputs))
