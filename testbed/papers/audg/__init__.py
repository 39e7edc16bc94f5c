"""AUDG's and PSURDG's paper: its runs, tables and verdicts. Start with ``paper.py``."""
