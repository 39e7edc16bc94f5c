"""The command line: one file for each command, and what the terminal shows."""
