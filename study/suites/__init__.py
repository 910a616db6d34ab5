"""Suites: several studies that are read, planned, run and reported as one."""
