"""Keeps what a results page is made of: the scores of every query, and what the study declared and cost.

    python -m docs.scripts.evidence keep NAME FOLDER     # of a finished study, into docs/results/evidence
    python -m docs.scripts.evidence show NAME            # its tables, from those files alone

NAME.parquet has the columns system, seed, query and value, so that `python -m analysis.compare` reads it; NAME.json has
the rest.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.comparisons.declared import make_settings
from analysis.data.cost import compute_cost
from analysis.data.results import Results, per_query
from analysis.data.score_table import build_score_table
from analysis.readers.score_files import read_score_file
from analysis.readers.source import open_results
from analysis.stats.comparison import Comparison, ComparisonFamily, ComparisonSettings, compare_family
from analysis.stats.paired_tests import differences_or_none, vary_over_seeds
from analysis.tables.main import ReportData, build_report_data, format_p_value
from trainables.utils.cli import Parser, report_errors
from trainables.utils.files import write_atomically

FOLDER = Path(__file__).parents[1] / "results" / "evidence"
_SETTINGS = ("alpha", "correction", "margin", "seeds")
"""Settings of the tests that a plan declares."""
_CURVE_POINTS = 16
"""Points of a loss curve that are kept: means over as many equal parts of the training."""


def keep_evidence(name: str, source: str, folder: Path = FOLDER) -> None:
    """Write the two files of a finished study."""
    with open_results(source) as results:
        analysis = build_report_data(results)
        split, metric = results.plan.test_split, results.plan.metric
        scores = per_query(results, split, metric)
        chosen = {row.system: row.configuration for row in analysis.table.rows}
        scores = scores[scores["configuration"] == scores["system"].map(chosen)]
        summary = summarize(results, analysis)
    columns = {"query_id": "query"}
    table = scores.rename(columns=columns)[["system", "seed", "query", "value"]].reset_index(drop=True)
    for column in ("system", "query"):
        table[column] = table[column].astype("category")
    table = table.astype({"seed": "Int32", "value": "float32"})
    folder.mkdir(exist_ok=True)
    with write_atomically(folder / f"{name}.parquet") as temporary:
        table.to_parquet(temporary, compression="zstd", index=False)
    with write_atomically(folder / f"{name}.json") as temporary:
        temporary.write_text(json.dumps(summary, indent=1) + "\n", "utf-8")


def summarize(results: Results, analysis: ReportData) -> dict[str, Any]:
    """Return what a page says about a study besides the scores of its queries."""
    plan, cost = results.plan, compute_cost(results)
    trained = next(run for run in results.runs if run.config["specification"].get("training"))
    return {
        "study": plan.study,
        "task": plan.task,
        "metric": plan.metric,
        "plan": {"hash": results.plan_hash, "version": plan.version},
        "families": {
            family.name: {
                "settings": {key: getattr(make_settings(plan, family), key) for key in _SETTINGS},
                "comparisons": [list(pair) for pair in family.comparisons],
            }
            for family in plan.test_families
            if plan.metric in plan.get_family_metrics(family)
        },
        "cost": {"hours": round(cost.hours, 2), "runs": cost.runs, "trained": cost.trained, "shared": cost.shared},
        "environment": trained.config["specification"]["environment"],
        "conclusion": analysis.conclusion,
        "systems": {
            row.system: {"epsilon": row.strength, "switch": row.switch, "dev": row.dev} for row in analysis.table.rows
        },
        "losses": {row.system: average_losses(results, row.configuration) for row in analysis.table.rows},
    }


def average_losses(results: Results, configuration: str | None) -> list[float]:
    """Return the training loss of a configuration, averaged over runs and over equal parts of the training."""
    curves = list[list[float]]()
    for run in results.runs:
        losses = [row["train/loss"] for row in run.history if "train/loss" in row]
        if losses and run.config["configuration_id"] == configuration:
            curves.append([float(part.mean()) for part in np.array_split(losses, _CURVE_POINTS)])
    return [round(float(value), 4) for value in np.mean(curves, axis=0)] if curves else []


def compare_kept(name: str, folder: Path = FOLDER) -> list[Comparison]:
    """Make the declared comparisons of a kept study again, from its scores alone."""
    summary = json.loads((folder / f"{name}.json").read_text("utf-8"))
    table = build_score_table(read_score_file(folder / f"{name}.parquet"))
    compared = list[Comparison]()
    for family, declared in summary["families"].items():
        pairs = declared["comparisons"]
        sides = [(table.get_complete_scores(system), table.get_complete_scores(baseline)) for system, baseline in pairs]
        compared += compare_family(
            ComparisonFamily(
                family,
                summary["task"],
                summary["metric"],
                [(*pair, differences_or_none(*own)) for pair, own in zip(pairs, sides, strict=True)],
                poolable=[vary_over_seeds(*own) for own in sides],
            ),
            ComparisonSettings(**declared["settings"]),
        )
    return compared


def format_tables(name: str, folder: Path = FOLDER) -> str:
    """Return the tables of a kept study in Markdown: systems, comparisons, and what it cost."""
    summary = json.loads((folder / f"{name}.json").read_text("utf-8"))
    table = build_score_table(read_score_file(folder / f"{name}.parquet"))
    lines = [f"| system | ε | switch | dev {summary['metric']} | test {summary['metric']} | loss |"]
    lines.append("|---|---|---|---|---|---|")
    for system, own in summary["systems"].items():
        means = table.values[system].mean(axis=1)
        loss = summary["losses"].get(system)
        cells = [system, *(_format_number(own[key]) for key in ("epsilon", "switch")), _format_mean(*own["dev"])]
        cells += [_format_mean(means.mean(), means.std(ddof=1) if len(means) > 1 else None)]
        lines.append(f"| {' | '.join(cells)} | {f'{loss[-1]:.3f}' if loss else '-'} |")
    lines += [
        "",
        "| system | baseline | difference | interval | p | corrected p | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for c in compare_kept(name, folder):
        low, high = c.interval or (float("nan"), float("nan"))
        adjusted = format_p_value(c.adjusted[summary["families"][c.family]["settings"]["correction"]])
        cells = [
            c.system,
            c.baseline,
            f"{c.difference:+.4f}",
            f"[{low:+.4f}, {high:+.4f}]",
            format_p_value(c.p),
            adjusted,
        ]
        lines.append(f"| {' | '.join(cells)} | {c.verdict} |")
    return "\n".join(lines)


def _format_number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _format_mean(mean: float, deviation: float | None) -> str:
    return f"{mean:.4f}" if deviation is None else f"{mean:.4f} ± {deviation:.4f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = Parser(
        prog="python -m docs.scripts.evidence", description="Keeps and shows what a results page is made of."
    )
    parser.add_argument("action", choices=("keep", "show"))
    parser.add_argument("name")
    parser.add_argument("source", nargs="?", help="folder of a finished study, to keep it")
    options = parser.parse_args(argv)

    def act() -> None:
        if options.action == "keep":
            keep_evidence(options.name, options.source)
        print(format_tables(options.name))

    return report_errors(parser.prog, act)


if __name__ == "__main__":
    sys.exit(main())
