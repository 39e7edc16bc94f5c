"""Fault injection: ``python -m tests.chaos`` (a run with kills, freezes, outages and garbage), ``… fuzz`` (frames)."""
