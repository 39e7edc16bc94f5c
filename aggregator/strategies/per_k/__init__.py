"""Semi-asynchronous strategies: a version per K updates."""
