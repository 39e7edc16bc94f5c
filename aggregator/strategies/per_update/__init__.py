"""Asynchronous strategies: a version per update."""
