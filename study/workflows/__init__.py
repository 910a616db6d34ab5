"""Workflows of the commands: run a study, preview it, prepare its data, open and clean up its folder."""
