"""Specifications of runs and their hashes, checkpoint keys, trials, and the plugin interface."""
