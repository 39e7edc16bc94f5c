"""Figures of a run, computed from the events of its trace: totals, timelines, metrics, energy."""
