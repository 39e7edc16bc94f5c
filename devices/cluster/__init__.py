"""A device as member or head of a cluster (EAFL)."""
