"""Error texts without private information, output on the console, and what installed packages add."""
