"""Declarations of commands and their options; imports nothing that a command needs for its work."""
