"""The types of events. Other code imports them from :mod:`testbed.history.trace`, which exports them all."""
