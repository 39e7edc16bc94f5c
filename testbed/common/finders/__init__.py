"""What can be imported: our own packages, and the modules that a user's profile names."""
