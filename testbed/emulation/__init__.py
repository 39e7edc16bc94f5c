"""The faults of each job of a device: the fault timetable, and recorded jobs."""
