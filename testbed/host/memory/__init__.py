"""The memory of a fleet: whether it fits, what one process needs, and huge pages for many forks."""
