"""The papers' experiments, run small and set beside what the papers print: ``python -m testbed.papers``."""
