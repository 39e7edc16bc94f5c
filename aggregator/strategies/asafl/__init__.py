"""ASAFL and what only it needs: shares of the band, the degree of synchrony, reused gradients."""
