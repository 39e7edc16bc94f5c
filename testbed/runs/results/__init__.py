"""The types of a run's results: each file is written, read, checked and documented from one definition."""
