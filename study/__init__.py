"""Runs a study: study file in, trained and recorded runs and a report out. The modules here are command lines."""
