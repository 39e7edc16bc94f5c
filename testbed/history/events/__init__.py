"""The types of events. Everybody has them from :mod:`testbed.history.trace`, which exports them all."""
