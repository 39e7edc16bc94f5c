"""The process of a device, its messages to the aggregator, and the canary, a process that only measures."""
