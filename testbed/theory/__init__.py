"""The theory of AUDG and PSURDG applied to a run: its delays, the bounds, and which strategy should win."""
