"""ASAFL's paper: its runs, tables and verdicts. Start with ``paper.py``."""
