"""EAFL and what only it needs: clustering by gradients, and its two-stage aggregation."""
