"""Error texts without private information, and output on the console."""
