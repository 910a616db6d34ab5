"""The training loop that both trainables share: batches, checkpoints, resuming. Loads torch."""
