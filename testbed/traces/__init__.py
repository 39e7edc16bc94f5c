"""What was measured elsewhere and is met again: rates of links and the availability of devices over time."""
