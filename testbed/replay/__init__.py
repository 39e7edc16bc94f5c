"""Replays: the jobs of a recorded run, repeated in a new one, with a certificate of how exact that was."""
