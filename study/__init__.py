"""Runs studies: reads a study file, trains and records its runs, and writes a report.

The modules directly in this package are command lines.
"""
