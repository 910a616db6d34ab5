"""The process of a trial: the run in it, its limits of time and memory, its crash report."""
