"""Exports W&B sweeps and runs their configurations."""
