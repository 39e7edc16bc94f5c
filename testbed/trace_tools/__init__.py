"""Tools for traces: import, show, plot, compare and export them (the command ``trace``)."""
