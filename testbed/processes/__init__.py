"""The processes of a run: forked from a template, watched, restarted and ended."""
