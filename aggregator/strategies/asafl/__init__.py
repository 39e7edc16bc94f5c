"""ASAFL and its parts: shares of the band, the synchronous degree, reused gradients."""
