"""Comparisons that a plan declares: at the end of a study, and at the looks of a sequential one."""
