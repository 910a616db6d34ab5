"""Runs studies: reads a study file, trains and records its runs, and writes a report.

The modules directly in this package are command lines.
"""

from trainables.utils import interruption


def run_study() -> None:
    """Run the console script `ranker-study`."""
    interruption.run_script("ranker-study", "study.run")
