"""The aggregator process: sockets, presence, evaluation, checkpoints and the end of a run, around the engine."""
