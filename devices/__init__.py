"""One emulated device is one OS process."""
