"""AUDG's and PSURDG's paper: its runs, and what is made of them; ``paper.py`` first."""
