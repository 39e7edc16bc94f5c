"""Comparison of runs: strategies over seeds, with intervals and paired tests, as tables, figures and a page."""
