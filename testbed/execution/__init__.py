"""One run from its experiment to its results and its report, as the command and the Python API carry it out."""
