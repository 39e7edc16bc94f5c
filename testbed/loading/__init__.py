"""Profiles from TOML files to one checked experiment."""
