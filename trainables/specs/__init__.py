"""Identifies a run: its hashed specification, its checkpoint keys, what a trial gets and returns, the plugin type."""
