"""A small Flower project."""
