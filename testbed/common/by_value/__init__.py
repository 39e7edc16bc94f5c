"""Python objects of a user that reach the processes of a run by value, because no file has them (ADR 31)."""
