"""When two delays count as equal."""

TOLERANCE = 1e-6
"""Seconds; division by the number of steps and multiplication may change the last digits."""
