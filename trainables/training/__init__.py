"""Training loop of both trainables: batches, checkpoints, resuming.

The modules load torch.
"""
