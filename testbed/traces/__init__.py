"""Recorded traces: rates of links and availability of devices over time."""
