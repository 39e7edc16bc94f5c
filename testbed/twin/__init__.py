"""A run on a virtual clock: the aggregator and all devices in one process, as a loop over what happens next."""
