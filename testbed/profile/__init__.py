"""What a profile may contain, and the concrete devices that follow from it."""
