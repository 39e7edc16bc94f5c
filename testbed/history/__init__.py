"""The trace of a run: types of events, the file that they are appended to, packing and rollback."""
