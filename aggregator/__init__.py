"""The aggregator: an engine that acts, strategies that decide."""
