"""Recomputing a run from its folder: the recorded arrivals, the real engine, strategy and training (ADR 29)."""
