"""One emulated device, which is one OS process: its state machine, its transfers and its jobs."""
