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
from search_spaces.space import points
from study.config.schema import Study
from study.config.spaces import family, searched
from study.plan.analysis_plan import declared
from study.wandb_workspace import names

RUNS = 1000
"""W&B shows no more in a workspace."""
_COLUMNS = 3


def sections(study: Study) -> list[ws.Section]:
    """All of them, in the order of reading."""
    made = [
        ("Comparisons", _comparisons(study)),
        ("Learning curves", _curves(study)),
        ("Hyperparameters", _hyperparameters(study)),
        (
            f"{study.analysis.metric} against {study.kind.strength}",
            _strength(study),
        ),
        ("Cost and failures", _cost(study)),
    ]
    return [_section(name, panels) for name, panels in made if panels]


def varied(study: Study) -> list[str]:
    """The hyperparameters in which configurations of the study differ; strength and switch wherever they have them."""
    values: dict[str, set[Any]] = {}
    for variant in searched(study):
        for point in points(family(study, variant)):
            for name, value in point.values.items():
                values.setdefault(name, set()).add(value)
    return [name for name, found in values.items() if len(found) > 1 or name in (study.kind.strength, names.SWITCH)]


def _section(name: str, panels: Sequence[wr.PanelTypes]) -> ws.Section:
    return ws.Section(
        name=name,
        panels=list(panels),
        is_open=True,
        layout_settings=ws.SectionLayoutSettings(columns=_COLUMNS, rows=-(-len(panels) // _COLUMNS)),
        panel_settings=ws.SectionPanelSettings(x_axis=names.INSTANCES),
    )


def _comparisons(study: Study) -> list[wr.PanelTypes]:
    """Of the report's run."""
    plan, panels = _plan(study), list[wr.PanelTypes]()
    for own in plan.families:
        corrected = f"{own.name}: corrected p ({own.correction}, level {plan.alpha:g})"
        made = [(*pair, metric) for pair in own.comparisons for metric in own.metrics or ("",)]
        panels += [
            _bars(corrected, [findings.compared(a, b, "p_corrected", metric) for a, b, metric in made]),
            _bars(
                f"{own.name}: difference in {plan.metric if not own.metrics else 'each metric'}",
                [findings.compared(a, b, "difference", metric) for a, b, metric in made],
            ),
        ]
    tested = [findings.of_system(name, "test") for name in plan.all_systems]
    return [*panels, _bars(f"{plan.metric} on the test set, of the chosen configurations", tested)]


def _curves(study: Study) -> list[wr.PanelTypes]:
    """Over instances, a line a variant: mean and standard deviation over its runs; the last panel has a line a
    configuration, over its seeds."""
    metric, variant = study.analysis.metric, wr.Config(names.VARIANT)
    shown = {
        "loss": names.LOSS,
        "learning rate": names.LEARNING_RATE,
        f"{study.kind.strength} in force": names.in_force(study.kind.strength),
        "instances a second": names.THROUGHPUT,
        f"{metric} on the development set": names.development(metric),
    }
    lines = [_lines(f"{title}, by variant", name, variant) for title, name in shown.items()]
    each = f"{metric} on the development set, by configuration (its seeds)"
    return [*lines, _lines(each, names.development(metric), wr.Metric("Group"))]


def _hyperparameters(study: Study) -> list[wr.PanelTypes]:
    found, metric = varied(study), study.analysis.metric
    if not found:
        return []
    axes = [wr.ParallelCoordinatesPlotColumn(wr.Config(names.VARIANT))]
    axes += [wr.ParallelCoordinatesPlotColumn(wr.Config(name), log=name == "learning_rate" or None) for name in found]
    axes += [wr.ParallelCoordinatesPlotColumn(wr.SummaryMetric(names.development(metric)))]
    return [
        wr.ParallelCoordinatesPlot(axes, title=f"{metric} on the development set by hyperparameters"),
        wr.ParameterImportancePlot(with_respect_to=names.development(metric)),
    ]


def _strength(study: Study) -> list[wr.PanelTypes]:
    """The baseline has none: a point, a bar and a line of its own at 0; nothing where curricula are at 0 as well."""
    if study.curriculum.variants:
        return []
    metric, strength = study.analysis.metric, study.kind.strength
    score, own = names.development(metric), wr.Config(strength)
    panels: list[wr.PanelTypes] = [
        wr.ScatterPlot(
            title=f"{metric} against {strength}, a point a run (0: the baseline)", x=own, y=wr.SummaryMetric(score)
        ),
        _bars(f"{metric} by {strength}, over variants (0: the baseline)", [score], own),
        _lines(f"{metric} over the training, by {strength} (0: the baseline)", score, own),
        _bars(f"{metric} by variant", [score], wr.Config(names.VARIANT)),
    ]
    if names.SWITCH in varied(study):
        switch = wr.Config(names.SWITCH)
        panels.append(wr.ScatterPlot(title=f"{metric} against switch", x=switch, y=wr.SummaryMetric(score)))
    return panels


def _cost(study: Study) -> list[wr.PanelTypes]:
    search, variant = study.search, wr.Config(names.VARIANT)
    hours = [findings.HOURS, *([findings.HOURS_BUDGET] if search.hours else [])]
    gpu_hours = [findings.GPU_HOURS, *([findings.GPU_HOURS_BUDGET] if search.gpu_hours else [])]
    failed = [findings.of_system(name, findings.FAILED) for name in _plan(study).all_systems]
    return [
        _bars("trial hours, and the budget of hours" if search.hours else "trial hours", hours),
        _bars("GPU hours, and their budget" if search.gpu_hours else "GPU hours", gpu_hours),
        _bars("seconds by variant, in all", [names.SECONDS], variant, total=True),
        _bars("instances trained by variant, in all", [names.TRAINED], variant, total=True),
        _bars("failed seeds by system", failed),
        wr.ScalarChart(title="failed seeds (first in the table of runs, with their cause)", metric=findings.FAILED),
        wr.ScalarChart(title="incomplete configurations", metric=findings.INCOMPLETE),
    ]


def _plan(study: Study) -> Plan:
    """Its comparisons; they do not depend on the model."""
    return Plan.model_validate(declared(study, model_digest=""))


def _lines(title: str, name: str, by: wr.Config | wr.Metric) -> wr.LinePlot:
    return wr.LinePlot(
        title=title,
        x=names.INSTANCES,
        y=[name],
        title_x="instances",
        groupby=by,
        groupby_aggfunc="mean",
        groupby_rangefunc="stddev",
        max_runs_to_show=RUNS,
    )


def _bars(title: str, shown: list[str], by: wr.Config | None = None, total: bool = False) -> wr.BarPlot:
    """Of each run, or of a group its mean and standard deviation, or else its sum."""
    grouped: dict[str, Any] = {}
    if by is not None:
        grouped = {"groupby": by, "groupby_aggfunc": "sum" if total else "mean"}
        grouped["groupby_rangefunc"] = "none" if total else "stddev"
    return wr.BarPlot(title=title, metrics=[*shown], max_runs_to_show=RUNS, max_bars_to_show=RUNS, **grouped)
