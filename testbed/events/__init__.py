"""The types of events. Everybody has them from :mod:`testbed.trace`, which exports them all."""
