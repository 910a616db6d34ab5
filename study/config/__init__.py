"""Reads a study file and its overrides into one validated `Study`."""
