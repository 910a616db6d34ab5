"""Process of a trial: executes a run within limits of time and memory, and leaves a crash report."""
