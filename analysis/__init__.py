"""Statistics and report of a study's results. The modules here are command lines and public imports."""

from trainables.utils import interruption


def compare_runs() -> None:
    """Run the console script `compare-runs`."""
    interruption.run_script("compare-runs", "analysis.compare")
