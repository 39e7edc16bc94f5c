"""Files: compressed ones, names, state files, and pickles that are read without executing anything."""
