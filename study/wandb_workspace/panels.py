"""Sections and panels of a study's dashboard, built from its settings alone.

A workspace has only one set of runs. So panels select runs by the keys that these log: curves and scores come from
training runs, comparisons and costs from the report's run. Panels define their own groups, because W&B draws parallel
coordinates and importances only for runs that are not grouped.
"""

from collections.abc import Sequence
from typing import Any

import wandb_workspaces.workspaces as ws
from wandb_workspaces.reports.v2 import interface as wr

from analysis.export import wandb_summary
from records.plan import Plan
from search_spaces.space import collect_values
from study.config.schema import Study
from study.config.spaces import count_proposals, make_system_space
from study.plan.analysis_plan import build_plan

INSTANCES = "instances"
"""Key of the horizontal axis of every curve."""
LOSS, LEARNING_RATE, THROUGHPUT = "train/loss", "train/learning_rate", "train/instances_per_second"
SECONDS, TRAINED = "seconds", "instances_trained"
VARIANT, SWITCH = "variant", "switch"
"""Keys of a run's config. Hyperparameters have the same names as in the search."""
MAX_RUNS = 1000
"""Maximum number of runs that W&B shows in a workspace."""
_COLUMNS = 3


def build_sections(study: Study) -> list[ws.Section]:
    """Return all sections, in the order in which they are read."""
    plan = Plan.model_validate(build_plan(study, model_digest=""))  # its comparisons do not depend on the model
    panels_by_title = {
        "Comparisons": _build_comparison_panels(plan),
        "Learning curves": _build_curve_panels(study),
        "Hyperparameters": _build_hyperparameter_panels(study),
        f"{study.analysis.metric} against {study.study_type.strength_name}": _build_smoothing_panels(study),
        "Cost and failures": _build_cost_panels(study, plan),
    }
    return [_make_section(title, panels) for title, panels in panels_by_title.items() if panels]


def find_varied_hyperparameters(study: Study) -> list[str]:
    """Return the hyperparameters in which the study's configurations differ.

    Strength and switch point are included whenever configurations have them.
    """
    spaces = [make_system_space(study, variant) for variant in count_proposals(study)]
    values = collect_values(point for space in spaces for point in space.points)
    always = (study.study_type.strength_name, SWITCH)
    return [name for name, distinct in values.items() if len(distinct) > 1 or name in always]


def get_dev_metric_key(study: Study) -> str:
    """Return the key of the study's metric on dev, both during training and at its end."""
    return f"dev/{study.analysis.metric}"


def _build_comparison_panels(plan: Plan) -> list[wr.PanelTypes]:
    """Return panels of the comparisons, from the report's run."""
    panels: list[wr.PanelTypes] = []
    for family in plan.families:
        pairs = [(*pair, metric) for pair in family.comparisons for metric in family.metrics or ("",)]
        split = None if family.phase == "test" else plan.get_split(family.phase)
        quantities = {
            f"corrected p ({family.correction}, level {plan.alpha:g})": "p_corrected",
            f"difference in {'each metric' if family.metrics else plan.metric}": "difference",
        }
        for title, quantity in quantities.items():
            keys = [wandb_summary.make_comparison_key(a, b, quantity, metric, split) for a, b, metric in pairs]
            panels.append(_make_bar_plot(f"{family.name}: {title}", keys))
    tested = [wandb_summary.make_system_key(name, "test") for name in plan.all_systems]
    return [*panels, _make_bar_plot(f"{plan.metric} on the test set, of the chosen configurations", tested)]


def _build_curve_panels(study: Study) -> list[wr.PanelTypes]:
    """Return panels of learning curves over instances.

    Each line shows the mean and standard deviation over the runs of a variant. In the last panel, each line shows them
    over the seeds of a configuration.
    """
    strength, dev_key = study.study_type.strength_name, get_dev_metric_key(study)
    shown = {
        "loss": LOSS,
        "learning rate": LEARNING_RATE,
        f"current {strength}": f"train/{strength}",
        "instances per second": THROUGHPUT,
        f"{study.analysis.metric} on the development set": dev_key,
    }
    lines = [_make_line_plot(f"{title}, by variant", key, wr.Config(VARIANT)) for title, key in shown.items()]
    title = f"{study.analysis.metric} on the development set, by configuration (its seeds)"
    return [*lines, _make_line_plot(title, dev_key, wr.Metric("Group"))]


def _build_hyperparameter_panels(study: Study) -> list[wr.PanelTypes]:
    varied, dev_key = find_varied_hyperparameters(study), get_dev_metric_key(study)
    if not varied:
        return []
    axes = [wr.ParallelCoordinatesPlotColumn(wr.Config(VARIANT))]
    axes += [wr.ParallelCoordinatesPlotColumn(wr.Config(name), log=name == "learning_rate" or None) for name in varied]
    axes += [wr.ParallelCoordinatesPlotColumn(wr.SummaryMetric(dev_key))]
    title = f"{study.analysis.metric} on the development set by hyperparameters"
    return [wr.ParallelCoordinatesPlot(axes, title=title), wr.ParameterImportancePlot(with_respect_to=dev_key)]


def _build_smoothing_panels(study: Study) -> list[wr.PanelTypes]:
    """Return panels of the metric against the smoothing strength, or none if the study has curricula.

    The baseline has strength 0. Systems with a curriculum have it, too, so the panels could not
    separate them from the baseline.
    """
    if study.curriculum.variants:
        return []
    metric, strength, dev_key = study.analysis.metric, study.study_type.strength_name, get_dev_metric_key(study)
    panels: list[wr.PanelTypes] = [
        _make_scatter_plot(f"{metric} against {strength}, one point per run (0: the baseline)", strength, dev_key),
        _make_bar_plot(f"{metric} by {strength}, over variants (0: the baseline)", [dev_key], strength),
        _make_line_plot(f"{metric} during training, by {strength} (0: the baseline)", dev_key, wr.Config(strength)),
        _make_bar_plot(f"{metric} by variant", [dev_key], VARIANT),
    ]
    if SWITCH in find_varied_hyperparameters(study):
        panels.append(_make_scatter_plot(f"{metric} against switch", SWITCH, dev_key))
    return panels


def _build_cost_panels(study: Study, plan: Plan) -> list[wr.PanelTypes]:
    search = study.search
    hours = [wandb_summary.HOURS, *([wandb_summary.HOURS_BUDGET] if search.hours else [])]
    gpu_hours = [wandb_summary.GPU_HOURS, *([wandb_summary.GPU_HOURS_BUDGET] if search.gpu_hours else [])]
    failed = [wandb_summary.make_system_key(name, wandb_summary.FAILED) for name in plan.all_systems]
    return [
        _make_bar_plot("trial hours, and the budget of hours" if search.hours else "trial hours", hours),
        _make_bar_plot("GPU hours, and their budget" if search.gpu_hours else "GPU hours", gpu_hours),
        _make_bar_plot("total seconds by variant", [SECONDS], VARIANT, is_total=True),
        _make_bar_plot("total instances trained by variant", [TRAINED], VARIANT, is_total=True),
        _make_bar_plot("failed seeds by system", failed),
        wr.ScalarChart(
            title="failed seeds (first in the table of runs, with their cause)", metric=wandb_summary.FAILED
        ),
        wr.ScalarChart(title="incomplete configurations", metric=wandb_summary.INCOMPLETE),
    ]


def _make_section(title: str, panels: Sequence[wr.PanelTypes]) -> ws.Section:
    return ws.Section(
        name=title,
        panels=[*panels],
        is_open=True,
        layout_settings=ws.SectionLayoutSettings(columns=_COLUMNS, rows=-(-len(panels) // _COLUMNS)),
        panel_settings=ws.SectionPanelSettings(x_axis=INSTANCES),
    )


def _make_line_plot(title: str, key: str, by: wr.Config | wr.Metric) -> wr.LinePlot:
    return wr.LinePlot(
        title=title,
        x=INSTANCES,
        y=[key],
        title_x="instances",
        groupby=by,
        groupby_aggfunc="mean",
        groupby_rangefunc="stddev",
        max_runs_to_show=MAX_RUNS,
    )


def _make_bar_plot(title: str, keys: list[str], by: str | None = None, is_total: bool = False) -> wr.BarPlot:
    """Return a panel with a bar for each run, or for each value of a config key: its mean or its sum."""
    grouped: dict[str, Any] = {}
    if by is not None:
        grouped = {"groupby": wr.Config(by), "groupby_aggfunc": "sum" if is_total else "mean"}
        grouped["groupby_rangefunc"] = "none" if is_total else "stddev"
    return wr.BarPlot(title=title, metrics=[*keys], max_runs_to_show=MAX_RUNS, max_bars_to_show=MAX_RUNS, **grouped)


def _make_scatter_plot(title: str, config_key: str, summary_key: str) -> wr.ScatterPlot:
    return wr.ScatterPlot(title=title, x=wr.Config(config_key), y=wr.SummaryMetric(summary_key))
