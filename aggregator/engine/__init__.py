"""The engine: it keeps the accounts of tickets, devices and models, and carries out a strategy's decisions. No I/O."""
