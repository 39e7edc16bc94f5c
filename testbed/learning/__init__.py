"""Data sets, splits, networks and tasks; ``setup`` makes them from a profile."""
