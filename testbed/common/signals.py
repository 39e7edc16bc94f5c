"""The signals that end a run."""

from __future__ import annotations

import signal

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""The launcher handles these signals; all other processes of a run ignore them."""
