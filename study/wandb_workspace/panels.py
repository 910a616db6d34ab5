"""Sections and panels of a study's dashboard, built from its settings alone.

A workspace has only one set of runs. So panels select runs by the keys that these log: curves and scores come from
training runs, comparisons and costs from the report's run. Panels define their own groups, because W&B draws parallel
coordinates and importances only for runs that are not grouped.
"""

from collections.abc import Sequence
from typing import Any

import wandb_workspaces.workspaces as ws
from wandb_workspaces.reports.v2 import interface as wr

from analysis.data.plan import Plan
from analysis.export import wandb_summary
from search_spaces.space import enumerate_space
from study.config.schema import Study
from study.config.spaces import count_proposals, make_system_space
from study.plan.analysis_plan import build_plan
from study.wandb_workspace import names

MAX_RUNS = 1000
"""Maximum number of runs that W&B shows in a workspace."""
_COLUMNS = 3


def build_sections(study: Study) -> list[ws.Section]:
    """Return all sections, in the order in which they are read."""
    panels_by_title = [
        ("Comparisons", _build_comparison_panels(study)),
        ("Learning curves", _build_curve_panels(study)),
        ("Hyperparameters", _build_hyperparameter_panels(study)),
        (
            f"{study.analysis.metric} against {study.study_type.strength_name}",
            _build_smoothing_panels(study),
        ),
        ("Cost and failures", _build_cost_panels(study)),
    ]
    return [_build_section(name, panels) for name, panels in panels_by_title if panels]


def find_varied_hyperparameters(study: Study) -> list[str]:
    """Return the hyperparameters in which the study's configurations differ.

    Strength and switch point are included whenever configurations have them.
    """
    values: dict[str, set[Any]] = {}
    for variant in count_proposals(study):
        for point in enumerate_space(make_system_space(study, variant)):
            for name, value in point.values.items():
                values.setdefault(name, set()).add(value)
    return [
        name
        for name, distinct in values.items()
        if len(distinct) > 1 or name in (study.study_type.strength_name, names.SWITCH)
    ]


def _build_section(name: str, panels: Sequence[wr.PanelTypes]) -> ws.Section:
    return ws.Section(
        name=name,
        panels=list(panels),
        is_open=True,
        layout_settings=ws.SectionLayoutSettings(columns=_COLUMNS, rows=-(-len(panels) // _COLUMNS)),
        panel_settings=ws.SectionPanelSettings(x_axis=names.INSTANCES),
    )


def _build_comparison_panels(study: Study) -> list[wr.PanelTypes]:
    """Return panels of the comparisons, from the report's run."""
    plan, panels = _build_plan(study), list[wr.PanelTypes]()
    for comparison_family in plan.families:
        corrected = f"{comparison_family.name}: corrected p ({comparison_family.correction}, level {plan.alpha:g})"
        comparisons = [
            (*pair, metric) for pair in comparison_family.comparisons for metric in comparison_family.metrics or ("",)
        ]
        panels += [
            _make_bar_plot(
                corrected,
                [wandb_summary.make_comparison_key(a, b, "p_corrected", metric) for a, b, metric in comparisons],
            ),
            _make_bar_plot(
                f"{comparison_family.name}: difference in "
                f"{plan.metric if not comparison_family.metrics else 'each metric'}",
                [wandb_summary.make_comparison_key(a, b, "difference", metric) for a, b, metric in comparisons],
            ),
        ]
    tested = [wandb_summary.make_system_key(name, "test") for name in plan.all_systems]
    return [*panels, _make_bar_plot(f"{plan.metric} on the test set, of the chosen configurations", tested)]


def _build_curve_panels(study: Study) -> list[wr.PanelTypes]:
    """Return panels of learning curves over instances.

    Each line shows the mean and standard deviation over the runs of a variant. In the last panel, each line shows them
    over the seeds of a configuration.
    """
    metric, variant = study.analysis.metric, wr.Config(names.VARIANT)
    shown = {
        "loss": names.LOSS,
        "learning rate": names.LEARNING_RATE,
        f"current {study.study_type.strength_name}": names.get_current_value_key(study.study_type.strength_name),
        "instances per second": names.THROUGHPUT,
        f"{metric} on the development set": names.get_dev_metric_key(metric),
    }
    lines = [_make_line_plot(f"{title}, by variant", name, variant) for title, name in shown.items()]
    each = f"{metric} on the development set, by configuration (its seeds)"
    return [*lines, _make_line_plot(each, names.get_dev_metric_key(metric), wr.Metric("Group"))]


def _build_hyperparameter_panels(study: Study) -> list[wr.PanelTypes]:
    varied, metric = find_varied_hyperparameters(study), study.analysis.metric
    if not varied:
        return []
    axes = [wr.ParallelCoordinatesPlotColumn(wr.Config(names.VARIANT))]
    axes += [wr.ParallelCoordinatesPlotColumn(wr.Config(name), log=name == "learning_rate" or None) for name in varied]
    axes += [wr.ParallelCoordinatesPlotColumn(wr.SummaryMetric(names.get_dev_metric_key(metric)))]
    return [
        wr.ParallelCoordinatesPlot(axes, title=f"{metric} on the development set by hyperparameters"),
        wr.ParameterImportancePlot(with_respect_to=names.get_dev_metric_key(metric)),
    ]


def _build_smoothing_panels(study: Study) -> list[wr.PanelTypes]:
    """Return panels of the metric against the smoothing strength, or none if the study has curricula.

    The baseline has strength 0. Systems with a curriculum have it as well, so the panels could not
    separate them from the baseline.
    """
    if study.curriculum.variants:
        return []
    metric, strength = study.analysis.metric, study.study_type.strength_name
    score, strength_config = names.get_dev_metric_key(metric), wr.Config(strength)
    panels: list[wr.PanelTypes] = [
        wr.ScatterPlot(
            title=f"{metric} against {strength}, one point per run (0: the baseline)",
            x=strength_config,
            y=wr.SummaryMetric(score),
        ),
        _make_bar_plot(f"{metric} by {strength}, over variants (0: the baseline)", [score], strength_config),
        _make_line_plot(f"{metric} during training, by {strength} (0: the baseline)", score, strength_config),
        _make_bar_plot(f"{metric} by variant", [score], wr.Config(names.VARIANT)),
    ]
    if names.SWITCH in find_varied_hyperparameters(study):
        switch = wr.Config(names.SWITCH)
        panels.append(wr.ScatterPlot(title=f"{metric} against switch", x=switch, y=wr.SummaryMetric(score)))
    return panels


def _build_cost_panels(study: Study) -> list[wr.PanelTypes]:
    search, variant = study.search, wr.Config(names.VARIANT)
    hours = [wandb_summary.HOURS, *([wandb_summary.HOURS_BUDGET] if search.hours else [])]
    gpu_hours = [wandb_summary.GPU_HOURS, *([wandb_summary.GPU_HOURS_BUDGET] if search.gpu_hours else [])]
    failed = [wandb_summary.make_system_key(name, wandb_summary.FAILED) for name in _build_plan(study).all_systems]
    return [
        _make_bar_plot("trial hours, and the budget of hours" if search.hours else "trial hours", hours),
        _make_bar_plot("GPU hours, and their budget" if search.gpu_hours else "GPU hours", gpu_hours),
        _make_bar_plot("total seconds by variant", [names.SECONDS], variant, total=True),
        _make_bar_plot("total instances trained by variant", [names.TRAINED], variant, total=True),
        _make_bar_plot("failed seeds by system", failed),
        wr.ScalarChart(
            title="failed seeds (first in the table of runs, with their cause)", metric=wandb_summary.FAILED
        ),
        wr.ScalarChart(title="incomplete configurations", metric=wandb_summary.INCOMPLETE),
    ]


def _build_plan(study: Study) -> Plan:
    """Return the analysis plan. Its comparisons do not depend on the model."""
    return Plan.model_validate(build_plan(study, model_digest=""))


def _make_line_plot(title: str, metric: str, by: wr.Config | wr.Metric) -> wr.LinePlot:
    return wr.LinePlot(
        title=title,
        x=names.INSTANCES,
        y=[metric],
        title_x="instances",
        groupby=by,
        groupby_aggfunc="mean",
        groupby_rangefunc="stddev",
        max_runs_to_show=MAX_RUNS,
    )


def _make_bar_plot(title: str, metrics: list[str], by: wr.Config | None = None, total: bool = False) -> wr.BarPlot:
    """Return a panel with a bar for each run or group. A group shows its mean or its sum."""
    grouped: dict[str, Any] = {}
    if by is not None:
        grouped = {"groupby": by, "groupby_aggfunc": "sum" if total else "mean"}
        grouped["groupby_rangefunc"] = "none" if total else "stddev"
    return wr.BarPlot(title=title, metrics=[*metrics], max_runs_to_show=MAX_RUNS, max_bars_to_show=MAX_RUNS, **grouped)
