"""Data sets: where their files are, how they are read, and the arrays that all processes of a run share."""
