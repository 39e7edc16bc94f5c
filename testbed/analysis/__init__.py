"""What the events of a trace add up to: totals, timelines, metrics, energy."""
