"""Messages, their encoding, sockets, and who may connect."""
