"""Tools for traces: import, show, plot, compare and export (the command ``trace``)."""
