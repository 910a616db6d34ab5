"""Re-ranking of a run with a saved cross-encoder: files, tokens, chunks of pairs, and the processes that score them."""
