"""CPU quotas of device processes by control groups, and the share of a core that each may use."""
