"""Training loop of both trainables: batches, checkpoints, resuming.

The modules load torch, except to verify a checkpoint.
"""
