"""Readers of a user's own files: a CSV, a .npz, a folder of images, a folder of Hugging Face's ``datasets``."""
