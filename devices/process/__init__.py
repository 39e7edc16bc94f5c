"""The device process: its messages and its loop; and the canary, a process that only measures."""
