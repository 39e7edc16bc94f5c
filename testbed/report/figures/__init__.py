"""The figures of a report, and their common style."""
