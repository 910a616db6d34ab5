"""How many seeds and queries a study needs, before it is run: from a pilot, or from published deviations.

    python -m analysis.sample_size PILOT.csv [--effect .005 .01] [--seeds 3 5 10] [--comparisons 4]
    python -m analysis.sample_size --seed-sd .006 --query-sd .05 --rest-sd .12

PILOT is a file as `analysis.compare` reads it, with two systems, seeds and queries or more. The deviations are of one
system's scores: between seeds (of its mean), in what a query means for one system beyond what it means for all, and in
the rest, a query of one run. Of a score per query that is 0 or 1 the rest is at most .5.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.catch("analysis.sample_size")

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from analysis.data.score_table import Cube, cube, read
from analysis.rendering import cells as render
from analysis.stats.power import POWER, table
from analysis.stats.variance_components import Variance, deviations, variance
from trainables.utils.cli import Parser, complain, show
from trainables.utils.errors import UserError

_LARGEST = 1e100
"""Deviations beyond it overflow when squared."""


def pilot(found: Cube, where: str) -> Variance:
    """The parts of the variance of a pilot's complete systems.

    Raises:
        UserError: it has fewer than two systems, seeds or queries.
    """
    whole = [values for name in found.values if (values := found.complete(name)) is not None]
    parts = variance([values for values in whole if len(values) == len(found.seeds)])
    if parts is None:
        raise UserError(where, "too little to tell the parts of the variance", "two systems, seeds and queries or more")
    if not any(parts.of_a_difference()):
        raise UserError(where, "systems that differ by the same on every query of every seed", "scores that vary")
    return parts


def text(parts: Variance, effects: Sequence[float], seeds: Sequence[int], comparisons: int, alpha: float) -> str:
    """The table of queries needed, by true difference and number of seeds."""
    rows = [
        [f"{effect:g}", *(f"{count:,}" if count else "never" for count in counts)]
        for effect, counts in table(parts.of_a_difference(), effects, seeds, alpha / comparisons)
    ]
    family = f"{comparisons} comparison{'s' * (comparisons != 1)} at {alpha:g}"
    title = f"queries needed to see a true difference with {POWER:.0%} power, {family}"
    return render.terminal(title, ["difference", *(f"{number} seeds" for number in seeds)], rows)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status: 0 done, 2 bad input."""
    parser = Parser(prog="python -m analysis.sample_size", description="Seeds and queries needed.")
    parser.add_argument("pilot", type=Path, nargs="?", help="scores of two systems or more, as analysis.compare reads")
    for name in ("seed", "query", "rest"):
        parser.add_argument(f"--{name}-sd", type=float, help=f"instead of a pilot: standard deviation, {name}")
    parser.add_argument("--effect", type=float, nargs="+", default=[0.005, 0.01, 0.02, 0.05], help="true differences")
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 5, 10, 20], help="numbers of seeds")
    parser.add_argument("--comparisons", type=int, default=1, help="of the family, Bonferroni (1)")
    parser.add_argument("--alpha", type=float, default=0.05, help="level of the family (.05)")
    asked = parser.parse_args(argv)
    try:
        _check(asked)
        if asked.pilot:
            parts = pilot(cube(read(asked.pilot), str(asked.pilot)), str(asked.pilot))
        else:
            parts = Variance(0.0, asked.query_sd**2, asked.seed_sd**2, asked.rest_sd**2)
    except UserError as error:
        complain("", error)
        return 2
    show(deviations(parts))
    show(text(parts, asked.effect, asked.seeds, asked.comparisons, asked.alpha))
    return 0


def _check(asked: argparse.Namespace) -> None:
    given = {f"--{name}-sd": getattr(asked, f"{name}_sd") for name in ("seed", "query", "rest")}
    options, there = ", ".join(given), [name for name, value in given.items() if value is not None]
    if (asked.pilot is None and len(there) < len(given)) or (asked.pilot is not None and there):
        found = f"{'no' if asked.pilot is None else 'a'} pilot and {', '.join(there) or 'no deviations'}"
        raise UserError("command line", found, f"PILOT.csv, or all three of {options}")
    sizes = [given[name] for name in there]
    for name, values, right, expected in (
        (
            options,
            sizes,
            asked.pilot or (all(0 <= value <= _LARGEST for value in sizes) and any(sizes)),
            f"numbers from 0 to {_LARGEST:g}, one of them above 0",
        ),
        ("--effect", asked.effect, all(0 < value < math.inf for value in asked.effect), "numbers above 0"),
        ("--seeds", asked.seeds, min(asked.seeds) >= 2, "whole numbers from 2 on"),
        ("--comparisons", [asked.comparisons], asked.comparisons >= 1, "a whole number above 0"),
        ("--alpha", [asked.alpha], 1e-9 <= asked.alpha < 1, "a number below 1, and no less than 1e-9"),
    ):
        if not right:
            raise UserError(name, ", ".join(map(str, values)), expected)


if __name__ == "__main__":
    interruption.run(main)
