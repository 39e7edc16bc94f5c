"""What this host can do for a run: checks, and a benchmark of its timing."""
