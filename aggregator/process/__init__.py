"""The aggregator process around the engine: intake, evaluation, checkpoints and the end of a run."""
