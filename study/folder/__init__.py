"""Folder of a study as its driver uses it: the records in memory, their remote copy, kept models, names, provenance."""
