"""Interval strategies: a version per tick of the clock."""
