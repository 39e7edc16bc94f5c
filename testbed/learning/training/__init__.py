"""Tasks that are ready for training: networks over flat vectors, and local training of the user's own."""
