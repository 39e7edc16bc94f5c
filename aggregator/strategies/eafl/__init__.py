"""EAFL and its parts: two phases, clustering by gradients, and two-stage aggregation."""
