"""The folder of a run: writing it, reading it, resuming it."""
