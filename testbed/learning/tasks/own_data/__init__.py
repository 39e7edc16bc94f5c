"""Tasks for a user's own data: files that a profile names, without any Python."""
