"""Error texts without secrets, and lines on the console."""
