"""Runs trials on Ray: the cluster and its nodes, the searcher, the trainable, failures."""
