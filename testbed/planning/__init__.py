"""Whether a host can run a fleet, and at which dilation."""
