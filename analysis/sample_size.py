"""Number of seeds and queries that a study needs, from a pilot or from published deviations.

    python -m analysis.sample_size PILOT.csv [--effect .005 .01] [--seeds 3 5 10] [--comparisons 4]
    python -m analysis.sample_size --seed-sd .006 --query-sd .05 --rest-sd .12

PILOT is a file as read by `analysis.compare`, such as the scores.csv of a report, with at least two systems, seeds and
queries. Systems share their seeds.

The deviations are standard deviations of one system's scores, beyond what all systems share: between seeds (of its mean
over queries), between queries (of its mean over seeds), and of the rest (a query of one run). What a seed or a query
does to all systems alike cancels out of their differences. For a score per query that is 0 or 1 the rest is at most .5.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.start_command("analysis.sample_size")

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from analysis.data.score_table import ScoreTable, build_score_table
from analysis.readers.score_files import read_score_file
from analysis.rendering.cells import format_terminal_table
from analysis.stats.power import POWER, tabulate_required_queries
from analysis.stats.variance_components import (
    VarianceComponents,
    describe_deviations,
    estimate_variance_components,
)
from trainables.utils.cli import Parser, print_escaped, report_errors
from trainables.utils.errors import UserError

_LARGEST = 1e100
"""Larger deviations overflow when squared."""


def estimate_pilot_variance(table: ScoreTable, where: str) -> tuple[VarianceComponents, list[str]]:
    """Estimate the variance components from a pilot.

    Args:
        table: scores of the pilot.
        where: name of the pilot in errors.

    Returns:
        The components, and the names of the systems that are not used because they lack scores or seeds.

    Raises:
        UserError: if there are fewer than two systems, seeds or queries, or if the systems differ by the same
            everywhere.
    """
    complete = {name: table.get_complete_scores(name) for name in table.values}
    used = {name: own for name, own in complete.items() if own is not None and len(own) == len(table.seeds)}
    left_out = [name for name in table.values if name not in used]
    components = estimate_variance_components(list(used.values()))
    if components is None:
        unused = [_describe_left_out(left_out)] if left_out else []
        raise UserError(
            where,
            "; ".join(["too little data to estimate the variances", *unused]),
            "at least two systems with the same seeds and queries, two of each",
        )
    if not any(components.to_difference_variance()):
        raise UserError(where, "systems that differ by the same on every query of every seed", "scores that vary")
    return components, left_out


def format_required_queries(
    components: VarianceComponents, effects: Sequence[float], seeds: Sequence[int], comparisons: int, alpha: float
) -> str:
    """Format the table of required queries by true difference and number of seeds."""
    rows = [
        [f"{effect:g}", *(f"{count:,}" if count else "never" for count in counts)]
        for effect, counts in tabulate_required_queries(
            components.to_difference_variance(), effects, seeds, alpha / comparisons
        )
    ]
    family = f"{comparisons} comparison{'s' * (comparisons != 1)} at {alpha:g}"
    title = f"queries needed to detect a true difference with {POWER:.0%} power, {family}"
    header = ["difference", *(f"{number} seeds" for number in seeds)]
    return f"{title}\n{format_terminal_table(header, rows)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 2 bad input, 1 any other failure."""
    parser = Parser("analysis.sample_size", "Computes the seeds and queries that a study needs.")
    parser.add_argument("pilot", type=Path, nargs="?", help="scores of at least two systems, as for analysis.compare")
    parser.add_argument("--metric", help="measure of the pilot to read, if it has several")
    for name, meaning in (
        ("seed", "between seeds"),
        ("query", "between queries"),
        ("rest", "of the rest"),
    ):
        parser.add_argument(f"--{name}-sd", type=float, help=f"without a pilot: standard deviation {meaning}")
    parser.add_argument("--effect", type=float, nargs="+", default=[0.005, 0.01, 0.02, 0.05], help="true differences")
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 5, 10, 20], help="numbers of seeds")
    parser.add_argument("--comparisons", type=int, default=1, help="comparisons in the family, for Bonferroni")
    parser.add_argument("--alpha", type=float, default=0.05, help="significance level of the family")
    arguments = parser.parse_args(argv)
    return report_errors("analysis.sample_size", lambda: _print_sizes(arguments))


def _print_sizes(arguments: argparse.Namespace) -> None:
    _check_arguments(arguments)
    if arguments.pilot:
        scores = build_score_table(read_score_file(arguments.pilot, arguments.metric), str(arguments.pilot))
        components, left_out = estimate_pilot_variance(scores, str(arguments.pilot))
        if left_out:
            print_escaped(_describe_left_out(left_out))
    else:
        components = VarianceComponents(arguments.seed_sd**2, arguments.query_sd**2, arguments.rest_sd**2)
    print_escaped(describe_deviations(components))
    print_escaped(
        format_required_queries(components, arguments.effect, arguments.seeds, arguments.comparisons, arguments.alpha)
    )


def _describe_left_out(names: list[str]) -> str:
    return f"not used, for lack of scores or seeds: {', '.join(names)}"


def _check_arguments(arguments: argparse.Namespace) -> None:
    given = {f"--{name}-sd": getattr(arguments, f"{name}_sd") for name in ("seed", "query", "rest")}
    options, present = ", ".join(given), [name for name, value in given.items() if value is not None]
    if (arguments.pilot is None and len(present) < len(given)) or (arguments.pilot is not None and present):
        found = f"{'no' if arguments.pilot is None else 'a'} pilot and {', '.join(present) or 'no deviations'}"
        raise UserError("command line", found, f"PILOT.csv, or all three of {options}")
    sizes = [given[name] for name in present]
    for name, values, valid, expected in (
        (
            options,
            sizes,
            arguments.pilot or (all(0 <= value <= _LARGEST for value in sizes) and any(sizes)),
            f"numbers from 0 to {_LARGEST:g}, one of them above 0",
        ),
        ("--effect", arguments.effect, all(0 < value < math.inf for value in arguments.effect), "numbers above 0"),
        ("--seeds", arguments.seeds, min(arguments.seeds) >= 2, "whole numbers of at least 2"),
        ("--comparisons", [arguments.comparisons], arguments.comparisons >= 1, "a whole number above 0"),
        ("--alpha", [arguments.alpha], 1e-9 <= arguments.alpha < 1, "a number from 1e-9 to below 1"),
    ):
        if not valid:
            raise UserError(name, ", ".join(map(str, values)), expected)


if __name__ == "__main__":
    interruption.run_command(main)
