"""Strategies that group devices by their measured speed: synchronous in a group, asynchronous between groups."""
