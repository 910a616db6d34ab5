"""From the results of a study to its report. The modules here are command lines and what other programs import."""
