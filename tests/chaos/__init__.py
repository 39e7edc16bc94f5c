"""Load and abuse: ``python -m tests.chaos`` (a run among kills, freezes, outages and garbage), ``… fuzz`` (frames)."""
