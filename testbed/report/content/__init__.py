"""The contents of a report: the run as plain values, tables, and the formatting of numbers."""
