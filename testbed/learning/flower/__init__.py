"""Flower projects as tasks: their clients train on the devices, our strategies aggregate (docs/flower.md)."""
