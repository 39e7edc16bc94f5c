"""Standard output and standard error: streams whose readers may go away, and text that cannot control a terminal."""
