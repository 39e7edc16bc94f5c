"""Data sets: locating, downloading and reading of files, and the arrays that all processes of a run share."""
