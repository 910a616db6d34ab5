"""Statistics and report of a study's results. The modules here are command lines and public imports."""
