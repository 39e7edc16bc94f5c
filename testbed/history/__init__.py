"""The trace: types of events, the file they are appended to, packing and rollback."""
