"""A user's own data by the keys of a profile: which files, how they are read, test samples, normalisation, network."""
