"""What the aggregator does in the course of a run, without I/O or a clock: for its process, and for a virtual clock."""
