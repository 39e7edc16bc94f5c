"""What every Edgebed process shares, and what surrounds a run."""

__version__ = "0.1.0"
