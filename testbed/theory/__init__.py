"""What the theory of AUDG and PSURDG says about a run: its delays, the bounds, and who should win."""
