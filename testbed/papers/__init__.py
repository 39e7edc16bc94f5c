"""The papers' experiments at a small scale, compared with what the papers print: ``python -m testbed.papers``."""
