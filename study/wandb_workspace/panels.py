"""What is on a study's dashboard: sections of panels, from its settings alone.

A workspace has one run set, so panels tell runs apart by what those log: curves and scores are the training runs',
comparisons and costs the report's. Panels group by themselves where they group, since W&B draws parallel coordinates
and importances only of a run set that is not grouped.
"""

from collections.abc import Sequence
from typing import Any

import wandb_workspaces.workspaces as ws
from wandb_workspaces.reports.v2 import interface as wr

from analysis.data.plan import Plan
from analysis.export import wandb_summary as findings
from search_spaces.space import enumerate_space
from study.config.schema import Study
from study.config.spaces import count_proposals, make_system_space
from study.plan.analysis_plan import build_plan
from study.wandb_workspace import names

MAX_RUNS = 1000
"""W&B shows no more in a workspace."""
_COLUMNS = 3


def build_sections(study: Study) -> list[ws.Section]:
    """All of them, in the order of reading."""
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
    """The hyperparameters in which configurations of the study differ; strength and switch wherever they have them."""
    values: dict[str, set[Any]] = {}
    for variant in count_proposals(study):
        for point in enumerate_space(make_system_space(study, variant)):
            for name, value in point.values.items():
                values.setdefault(name, set()).add(value)
    return [
        name
        for name, found in values.items()
        if len(found) > 1 or name in (study.study_type.strength_name, names.SWITCH)
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
    """Of the report's run."""
    plan, panels = _build_plan(study), list[wr.PanelTypes]()
    for comparison_family in plan.families:
        corrected = f"{comparison_family.name}: corrected p ({comparison_family.correction}, level {plan.alpha:g})"
        comparisons = [
            (*pair, metric) for pair in comparison_family.comparisons for metric in comparison_family.metrics or ("",)
        ]
        panels += [
            _make_bar_plot(
                corrected, [findings.make_comparison_key(a, b, "p_corrected", metric) for a, b, metric in comparisons]
            ),
            _make_bar_plot(
                f"{comparison_family.name}: difference in "
                f"{plan.metric if not comparison_family.metrics else 'each metric'}",
                [findings.make_comparison_key(a, b, "difference", metric) for a, b, metric in comparisons],
            ),
        ]
    tested = [findings.make_system_key(name, "test") for name in plan.all_systems]
    return [*panels, _make_bar_plot(f"{plan.metric} on the test set, of the chosen configurations", tested)]


def _build_curve_panels(study: Study) -> list[wr.PanelTypes]:
    """Over instances, a line a variant: mean and standard deviation over its runs; the last panel has a line a
    configuration, over its seeds."""
    metric, variant = study.analysis.metric, wr.Config(names.VARIANT)
    shown = {
        "loss": names.LOSS,
        "learning rate": names.LEARNING_RATE,
        f"{study.study_type.strength_name} in force": names.get_current_value_key(study.study_type.strength_name),
        "instances a second": names.THROUGHPUT,
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
    """The baseline has none: a point, a bar and a line of its own at 0; nothing where curricula are at 0 as well."""
    if study.curriculum.variants:
        return []
    metric, strength = study.analysis.metric, study.study_type.strength_name
    score, own = names.get_dev_metric_key(metric), wr.Config(strength)
    panels: list[wr.PanelTypes] = [
        wr.ScatterPlot(
            title=f"{metric} against {strength}, a point a run (0: the baseline)", x=own, y=wr.SummaryMetric(score)
        ),
        _make_bar_plot(f"{metric} by {strength}, over variants (0: the baseline)", [score], own),
        _make_line_plot(f"{metric} over the training, by {strength} (0: the baseline)", score, own),
        _make_bar_plot(f"{metric} by variant", [score], wr.Config(names.VARIANT)),
    ]
    if names.SWITCH in find_varied_hyperparameters(study):
        switch = wr.Config(names.SWITCH)
        panels.append(wr.ScatterPlot(title=f"{metric} against switch", x=switch, y=wr.SummaryMetric(score)))
    return panels


def _build_cost_panels(study: Study) -> list[wr.PanelTypes]:
    search, variant = study.search, wr.Config(names.VARIANT)
    hours = [findings.HOURS, *([findings.HOURS_BUDGET] if search.hours else [])]
    gpu_hours = [findings.GPU_HOURS, *([findings.GPU_HOURS_BUDGET] if search.gpu_hours else [])]
    failed = [findings.make_system_key(name, findings.FAILED) for name in _build_plan(study).all_systems]
    return [
        _make_bar_plot("trial hours, and the budget of hours" if search.hours else "trial hours", hours),
        _make_bar_plot("GPU hours, and their budget" if search.gpu_hours else "GPU hours", gpu_hours),
        _make_bar_plot("seconds by variant, in all", [names.SECONDS], variant, total=True),
        _make_bar_plot("instances trained by variant, in all", [names.TRAINED], variant, total=True),
        _make_bar_plot("failed seeds by system", failed),
        wr.ScalarChart(title="failed seeds (first in the table of runs, with their cause)", metric=findings.FAILED),
        wr.ScalarChart(title="incomplete configurations", metric=findings.INCOMPLETE),
    ]


def _build_plan(study: Study) -> Plan:
    """Its comparisons; they do not depend on the model."""
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
    """Of each run, or of a group its mean and standard deviation, or else its sum."""
    grouped: dict[str, Any] = {}
    if by is not None:
        grouped = {"groupby": by, "groupby_aggfunc": "sum" if total else "mean"}
        grouped["groupby_rangefunc"] = "none" if total else "stddev"
    return wr.BarPlot(title=title, metrics=[*metrics], max_runs_to_show=MAX_RUNS, max_bars_to_show=MAX_RUNS, **grouped)
