"""Synchronous strategies: a version per round."""
