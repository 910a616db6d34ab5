"""Preview of a suite: runs, shared training and cost of each study and of all of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from study.suites.joint_plan import check_suite_folder
from study.suites.suite_loader import Suite, name_study
from study.workflows.dry_run import Preview, build_preview, estimate_wall_hours, format_bounds, format_duration

_UNKNOWN = "unknown"


class SuitePreview(Preview):
    """Preview of a suite: plain data, shown as the text of --dry-run."""

    def __str__(self) -> str:
        return "\n".join(_format_lines(self))


def build_suite_preview(
    suite: Suite,
    estimate_cost: bool = False,
    log: Callable[[str], None] = lambda line: None,
    records: str | None = None,
) -> SuitePreview:
    """Return the preview of a suite.

    Args:
        suite: the suite as the command line describes it.
        estimate_cost: True to train for a minute a study in order to estimate the cost.
        log: called with a line for each step of these minutes.
        records: as for a study; or the folder of an earlier suite, with a folder for the key of each study. If None,
            each study's own.

    Returns:
        Keys are suite, folder, axes, columns, expected (needs that the file states), published (source of the published
            results, or None), studies (by key, the labels and the preview of the study), runs, instances (bounds),
            trial_hours (bounds) and hours (bounds). A sum that is not known for all studies is None.

    Raises:
        UserError: a study cannot be run as it is; see `study.workflows.dry_run.build_preview`.
    """
    check_suite_folder(suite)
    studies = {}
    for each in suite.studies:
        if estimate_cost:
            log(f"study {each.study.name}")
        with name_study(each):
            own = str(Path(records, each.key)) if records and Path(records, each.key).is_dir() else records
            studies[each.key] = {"labels": each.labels, **build_preview(each.study, estimate_cost, log, own)}
    costs = [preview["cost"] for preview in studies.values()]
    trial_hours = _add([cost and cost["trial_hours"] for cost in costs])
    at_once = {cost["at_once"] for cost in costs if cost}
    hours = None
    if trial_hours and len(at_once) == 1 and (number := at_once.pop()):
        hours = {
            name: round(estimate_wall_hours(value, number, len(studies)), 3) for name, value in trial_hours.items()
        }
    return SuitePreview(
        suite=suite.name,
        folder=str(suite.folder),
        axes=suite.axes,
        columns=suite.columns,
        expected=suite.expected.model_dump(),
        published=suite.published.source if suite.published else None,
        studies=studies,
        runs=sum(preview["runs"] for preview in studies.values()),
        instances=_add([preview["instances"] and preview["instances"]["shared"] for preview in studies.values()]),
        trial_hours=trial_hours,
        hours=hours,
    )


def _add(bounds: list[dict[str, Any] | None]) -> dict[str, Any] | None:
    known = [each for each in bounds if each]
    if len(known) < len(bounds):
        return None
    return {name: round(sum(each[name] for each in known), 3) for name in ("low", "high")}


def _format_lines(preview: dict[str, Any]) -> list[str]:
    studies = preview["studies"]
    width = max(12, *map(len, studies))
    axes = "; ".join(f"{axis}: {', '.join(labels)}" for axis, labels in preview["axes"].items())
    lines = [
        f"suite {preview['suite']}: {len(studies)} studies ({axes}), results in {preview['folder']}",
        f"{'study':{width}} {'task':14} {'systems':>8} {'runs':>6} {'instances':>22} {'trial hours':>14}  data",
    ]
    for key, own in studies.items():
        instances, cost = own["instances"], own["cost"]
        lines.append(
            f"{key:{width}} {own['task']:14} {len(own['systems']):8} {own['runs']:6} "
            f"{_format(instances and instances['shared']):>22} {_format(cost and cost['trial_hours']):>14}  "
            f"{own['data'] or 'not prepared'}"
        )
    lines.append(
        f"{'total':{width}} {'':14} {'':8} {preview['runs']:6} {_format(preview['instances']):>22} "
        f"{_format(preview['trial_hours']):>14}"
    )
    if preview["hours"]:
        lines.append(f"cost: {format_duration(preview['hours'])} on shared machines, starts and reports included")
    else:
        lines.append("cost: unknown until every study has a recorded run, or --estimate-cost")
    expected = preview["expected"]
    if expected["gpu_hours"]:
        lines.append(f"stated by the file: roughly {expected['gpu_hours']:g} hours on one GPU")
    if expected["minutes"]:
        lines.append(f"stated by the file: roughly {expected['minutes']:g} minutes on two cores")
    if expected["data"]:
        lines.append(f"needs: {expected['data']}")
    lines.append("studies that share a run or its first segment train it once; the totals count it for each of them")
    if preview["published"]:
        lines.append(f"published results next to the measured ones: {preview['published']}")
    lines += _format_detectable_effects(studies)
    return [*lines, "for the systems of one study: --dry-run --study KEY"]


def _format_detectable_effects(studies: dict[str, dict[str, Any]]) -> list[str]:
    """Return a line for each comparison: what its studies find with their own numbers of seeds."""
    by_pair = dict[str, list[str]]()
    for key, preview in studies.items():
        if found := preview["detectable"]:
            place = found["seeds"].index(len(preview["confirm_seeds"] or preview["seeds"]))
            for row in found["comparisons"]:
                if (effect := row["effects"][place]) is not None:
                    pair = f"{row['system']} over {row['baseline']}"
                    by_pair.setdefault(pair, []).append(f"{effect:.4f} ({key})")
    heading = (
        "differences found with 80 % power, corrected within a study, with its test queries, or those of the records:"
    )
    return [heading, *(f"  {pair}: {', '.join(each)}" for pair, each in by_pair.items())] if by_pair else []


def _format(bounds: dict[str, Any] | None) -> str:
    return format_bounds(bounds) if bounds else _UNKNOWN
