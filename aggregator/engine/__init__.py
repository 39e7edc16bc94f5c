"""The engine: tickets, present devices and models; it carries out what a strategy decides. No I/O."""
