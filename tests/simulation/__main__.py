"""Plays schedules for some seconds, or one of them again."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.simulation.play import Simulation, draw, play_schedules
from tests.trainables.small import write_world


def main() -> int:
    """Say how many schedules were played, or which one failed, and return 1 then."""
    parser = argparse.ArgumentParser("python -m tests.simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="time to play, default 60")
    parser.add_argument("--first", type=int, default=0, help="first seed, default 0")
    parser.add_argument("--seed", type=int, help="print and play the schedule of this seed alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        simulation = Simulation(write_world(Path(folder)))
        if options.seed is not None:
            print(draw(simulation, options.seed))
            simulation.play(draw(simulation, options.seed))
            return 0
        n_played, seconds, failure = play_schedules(simulation, options.first, options.seconds)
    print(f"{n_played} schedules in {seconds:.0f} s, {60 * n_played / seconds:.0f} a minute")
    print(failure)
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
