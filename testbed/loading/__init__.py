"""Loading and checking of experiments from TOML files."""
