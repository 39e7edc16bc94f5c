"""Programs that the command line starts as processes of their own."""
