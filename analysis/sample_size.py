"""Number of seeds and queries that a study needs, from a pilot, a known task or published deviations.

    python -m analysis.sample_size PILOT [--effect .005 .01] [--seeds 3 5 10] [--comparisons 4]
    python -m analysis.sample_size --like docstrings [--train-seconds 600 --query-seconds .02] [--figure power.svg]
    python -m analysis.sample_size --seed-sd .006 --query-sd .05 --rest-sd .12

PILOT is the folder of a finished study, or a file as read by `analysis.compare`, with at least two systems, seeds and
queries. Systems share their seeds. A folder also has the seconds of its runs, its comparisons, and other metrics.

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

from analysis.comparisons.pilot import (
    TASKS,
    PilotMetric,
    StudyPilot,
    make_table_pilot,
    read_study_pilot,
    read_task_pilot,
)
from analysis.data.measured_cost import RunSeconds
from analysis.data.score_table import build_score_table
from analysis.figures.power_curve import plot_power
from analysis.figures.style import render_svg
from analysis.readers.score_files import read_score_file
from analysis.readers.study_reader import read_folder
from analysis.rendering.cells import format_terminal_table
from analysis.stats.power import POWER, find_cheapest_size, required_queries, tabulate_required_queries
from analysis.stats.variance_components import VarianceComponents, describe_deviations
from trainables.utils.cli import Parser, print_escaped, report_errors, write_text_option
from trainables.utils.errors import UserError
from trainables.utils.files import read_head

_LARGEST = 1e100
"""Larger deviations overflow when squared."""
_FIGURE_MARK = "<!-- by analysis.sample_size -->"
"""Comment of a figure, by which the command knows its own."""


def format_required_queries(
    components: VarianceComponents, effects: Sequence[float], seeds: Sequence[int], comparisons: int, alpha: float
) -> str:
    """Format the table of required queries by true difference and number of seeds."""
    rows = [
        [f"{effect:g}", *_format_counts(counts)]
        for effect, counts in tabulate_required_queries(
            components.to_difference_variance(), effects, seeds, alpha / comparisons
        )
    ]
    family = f"{comparisons} comparison{'s' * (comparisons != 1)} at {alpha:g}"
    title = f"queries needed to detect a true difference with {POWER:.0%} power, {family}"
    header = ["difference", *(f"{number} seeds" for number in seeds)]
    return f"{title}\n{format_terminal_table(header, rows)}"


def format_cheapest_sizes(
    components: VarianceComponents, effects: Sequence[float], level: float, seconds: RunSeconds, systems: int
) -> str:
    """Format the table of the cheapest seeds and queries by true difference."""
    rows = []
    for effect in effects:
        size = find_cheapest_size(components.to_difference_variance(), effect, level, *seconds)
        cells = (
            [f"{size.seeds:,}", f"{size.queries:,}", f"{systems * size.seconds / 3600:,.2f}"] if size else ["never"] * 3
        )
        rows.append([f"{effect:g}", *cells])
    trained = f"{systems} system{'s' * (systems != 1)}"
    title = (
        f"cheapest seeds and queries for {trained}, with {seconds.train:.3g} s to train a run "
        f"and {seconds.query:.3g} s to score a query"
    )
    return f"{title}\n{format_terminal_table(['difference', 'seeds', 'queries', 'hours'], rows)}"


def format_metrics(
    metrics: Sequence[PilotMetric],
    gain_of: tuple[str, str],
    effects: Sequence[float],
    seeds: Sequence[int],
    level: float,
) -> str:
    """Format the queries that each metric needs for what is one difference in the plan's metric.

    The difference is the smallest that the plan's metric can detect with the most seeds, or the largest.
    """
    own = metrics[0].components.to_difference_variance()
    possible = [effect for effect in effects if required_queries(own, effect, max(seeds), level)]
    effect = min(possible, default=max(effects))
    rows, first = list[list[str]](), required_queries(own, effect, max(seeds), level)
    for metric in metrics:
        same, variance = effect * metric.gain / metrics[0].gain, metric.components.to_difference_variance()
        counts = [required_queries(variance, same, number, level) for number in sorted(seeds)]
        relative = f"{counts[-1] / first:.2f}" if counts[-1] and first else "-"
        rows.append([metric.name, f"{metric.gain:.4f}", f"{same:.4f}", *_format_counts(counts), relative])
    system, baseline = gain_of
    title = (
        f"queries needed by other metrics for the same share of the gain of {system} over {baseline} "
        f"as {effect:g} in {metrics[0].name}"
    )
    header = ["metric", "gain", "difference", *(f"{number} seeds" for number in sorted(seeds)), "relative"]
    return f"{title}\n{format_terminal_table(header, rows)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 2 bad input, 1 any other failure."""
    parser = Parser("analysis.sample_size", "Computes the seeds and queries that a study needs.")
    parser.add_argument(
        "pilot", type=Path, nargs="?", help="folder of a finished study, or scores as for analysis.compare"
    )
    parser.add_argument("--metric", help="measure of the pilot's scores to read, if they have several")
    parser.add_argument("--like", choices=list(TASKS), help="without a pilot: deviations of a study on such a task")
    for name, meaning in (("seed", "between seeds"), ("query", "between queries"), ("rest", "of the rest")):
        parser.add_argument(f"--{name}-sd", type=float, help=f"without a pilot: standard deviation {meaning}")
    parser.add_argument("--effect", type=float, nargs="+", default=[0.005, 0.01, 0.02, 0.05], help="true differences")
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 5, 10, 20], help="numbers of seeds")
    parser.add_argument(
        "--comparisons", type=int, help="comparisons in the family, for Bonferroni (those of a study's folder, or 1)"
    )
    parser.add_argument(
        "--alpha", type=float, help="significance level of the family (that of a study's folder, or .05)"
    )
    parser.add_argument("--train-seconds", type=float, help="seconds to train a run; adds the cheapest size")
    parser.add_argument("--query-seconds", type=float, help="seconds to score a query with a run")
    parser.add_argument("--figure", type=Path, metavar="FILE.svg", help="also draw the power by true difference")
    parser.add_argument("--queries", type=int, help="queries of the figure (those of the pilot)")
    arguments = parser.parse_args(argv)
    return report_errors("analysis.sample_size", lambda: _print_sizes(arguments))


def _print_sizes(arguments: argparse.Namespace) -> None:
    _check_arguments(arguments)
    pilot = _read_pilot(arguments)
    components, effects, seeds = pilot.components, arguments.effect, arguments.seeds
    comparisons = arguments.comparisons or pilot.comparisons
    alpha = pilot.alpha if arguments.alpha is None else arguments.alpha
    level = alpha / comparisons
    if arguments.train_seconds is not None:
        pilot = pilot._replace(seconds=RunSeconds(arguments.train_seconds, arguments.query_seconds))
    if arguments.figure:
        _write_figure(arguments, pilot, level)
    parts = [
        "\n".join([*pilot.notes, describe_deviations(components)]),
        format_required_queries(components, effects, seeds, comparisons, alpha),
    ]
    if pilot.seconds:
        parts.append(format_cheapest_sizes(components, effects, level, pilot.seconds, pilot.systems or comparisons + 1))
    if pilot.metrics:
        parts.append(format_metrics(pilot.metrics, pilot.gain_of, effects, seeds, level))
    print_escaped("\n".join(parts))


def _read_pilot(arguments: argparse.Namespace) -> StudyPilot:
    path = arguments.pilot
    if path and path.is_dir():
        return read_study_pilot(read_folder(path), str(path))
    if path:
        table = build_score_table(read_score_file(path, arguments.metric), str(path))
        return make_table_pilot(table, str(path), arguments.metric or "")
    if arguments.like:
        return read_task_pilot(arguments.like)
    return StudyPilot(VarianceComponents(arguments.seed_sd**2, arguments.query_sd**2, arguments.rest_sd**2), [])


def _write_figure(arguments: argparse.Namespace, pilot: StudyPilot, level: float) -> None:
    path, queries = arguments.figure, arguments.queries or pilot.queries
    if path.suffix != ".svg":
        raise UserError("--figure", path, "a file that ends in .svg")
    if queries is None:
        raise UserError("--figure", "no number of queries", "--queries, or a pilot")
    variance = pilot.components.to_difference_variance()
    svg = render_svg(
        lambda: plot_power(variance, arguments.seeds, queries, level, max(arguments.effect), pilot.metric)
    ).replace("<svg", f"{_FIGURE_MARK}\n<svg", 1)
    inputs = [arguments.pilot] if arguments.pilot and arguments.pilot.is_file() else []
    write_text_option("--figure", path, svg, lambda own: _FIGURE_MARK in read_head(own), inputs)


def _format_counts(counts: Sequence[int | None]) -> list[str]:
    return [f"{count:,}" if count else "never" for count in counts]


def _check_arguments(arguments: argparse.Namespace) -> None:
    given = {f"--{name}-sd": getattr(arguments, f"{name}_sd") for name in ("seed", "query", "rest")}
    options, present = ", ".join(given), [name for name, value in given.items() if value is not None]
    known = [name for name, value in (("a pilot", arguments.pilot), ("--like", arguments.like)) if value]
    if len(known) > 1 or (present if known else len(present) < len(given)):
        found = f"{' and '.join(known) or 'no pilot'} and {', '.join(present) or 'no deviations'}"
        raise UserError("command line", found, f"a pilot, --like, or all three of {options}")
    costs = {f"--{name}-seconds": getattr(arguments, f"{name}_seconds") for name in ("train", "query")}
    if (named := [name for name, value in costs.items() if value is not None]) and len(named) < len(costs):
        raise UserError("command line", f"{named[0]} alone", " and ".join(costs))
    if arguments.metric and (not arguments.pilot or arguments.pilot.is_dir()):
        found = f"used with the folder {arguments.pilot}" if arguments.pilot else "used without a pilot"
        raise UserError("--metric", found, "a file; a study has its plan's metric")
    if arguments.queries is not None and not arguments.figure:
        raise UserError("command line", "--queries without --figure", "both")
    sizes, alpha = [given[name] for name in present], arguments.alpha
    for name, values, valid, expected in (
        (
            options,
            sizes,
            known or (all(0 <= value <= _LARGEST for value in sizes) and any(sizes)),
            f"numbers from 0 to {_LARGEST:g}, one of them above 0",
        ),
        ("--effect", arguments.effect, all(0 < value < math.inf for value in arguments.effect), "numbers above 0"),
        ("--seeds", arguments.seeds, min(arguments.seeds) >= 2, "whole numbers of at least 2"),
        *(
            (f"--{name}", [value], value is None or value >= 1, "a whole number above 0")
            for name, value in (("comparisons", arguments.comparisons), ("queries", arguments.queries))
        ),
        *(
            (name, [value], value is None or 1e-9 <= value <= _LARGEST, f"seconds from 1e-9 to {_LARGEST:g}")
            for name, value in costs.items()
        ),
        ("--alpha", [alpha], alpha is None or 1e-9 <= alpha < 1, "a number from 1e-9 to below 1"),
    ):
        if not valid:
            raise UserError(name, ", ".join(map(str, values)), expected)


if __name__ == "__main__":
    interruption.run_command(main)
