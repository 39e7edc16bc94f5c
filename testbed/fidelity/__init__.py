"""The certificate of a run: how exact its emulated timing was."""
