"""The peers of the aggregator process: their messages, limits and refusals, and which devices are lost."""
