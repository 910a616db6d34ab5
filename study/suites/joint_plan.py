"""Writes the plan of a suite, which is fixed before the first test score of its studies."""

from typing import Any

from records.plan import Plan
from records.plan_file import PLAN_FILE, SUITE_FILE, read_suite_plan
from records.run_record import has_test_scores
from records.suite_plan import SuitePlan
from study.plan.analysis_plan import build_plan
from study.suites.suite_loader import Suite, SuiteStudy
from study.utils.console import print_line
from trainables.utils.errors import UserError
from trainables.utils.files import write_json
from trainables.utils.hashing import hash_json


def build_suite_plan(suite: Suite) -> dict[str, Any]:
    """Return the plan of a suite, with all studies of its file."""
    first = suite.studies[0].study.analysis
    document = {
        "suite": suite.name,
        "version": 1,
        "columns": suite.columns,
        "axes": suite.axes,
        "alpha": first.alpha,
        "correction": first.correction,
        "studies": [_describe_study(each) for each in suite.planned],
        "published": suite.published,
    }
    return SuitePlan.model_validate(document).model_dump(mode="json")


def check_suite_folder(suite: Suite) -> None:
    """Check that a folder is not that of a study or of another suite, or of one with other axes.

    Raises:
        UserError: if it is.
    """
    if (suite.folder / PLAN_FILE).is_file():
        raise UserError(str(suite.folder), "results of a study", "an empty folder or results of this suite")
    earlier = _read_earlier(suite)
    if earlier and earlier["suite"] != suite.name:
        raise UserError(str(suite.folder), f"results of the suite {earlier['suite']!r}", f"those of {suite.name!r}")
    if earlier and {*earlier["axes"]} != {*suite.axes}:
        found = f"results of a suite with the axes {', '.join(earlier['axes'])}"
        raise UserError(str(suite.folder), found, f"{', '.join(suite.axes)} as in the file, or another output.folder")


def register_suite_plan(suite: Suite) -> tuple[dict[str, Any], str]:
    """Write the plan of a suite to its folder and to that of each of its studies, and return it with its hash.

    A plan that differs from the existing one becomes its next version. Studies of the existing plan that the file no
    longer has stay in it. A study that joins when another one has test scores is marked as late.
    """
    plan, earlier = build_suite_plan(suite), _read_earlier(suite)
    if earlier:
        plan = _continue_plan(plan, earlier, suite)
    plan_hash = hash_json(plan)
    for folder in (suite.folder, *(each.study.folder for each in suite.studies)):
        try:
            is_current = (folder / SUITE_FILE).is_file() and read_suite_plan(folder / SUITE_FILE).document == plan
        except UserError as error:
            print_line(f"{str(error).partition('; expected')[0]}; it is written again from a copy")
            is_current = False
        if not is_current:
            write_json(folder / SUITE_FILE, {"plan": plan, "hash": plan_hash}, with_checksum=True)
    return plan, plan_hash


def _describe_study(each: SuiteStudy) -> dict[str, Any]:
    comparisons = Plan.model_validate(build_plan(each.study, "")).headline.comparisons
    return {
        "key": each.key,
        "study": each.study.name,
        "project": each.study.project,
        "labels": each.labels,
        "metric": each.study.analysis.metric,
        "comparisons": comparisons,
    }


def _continue_plan(plan: dict[str, Any], earlier: dict[str, Any], suite: Suite) -> dict[str, Any]:
    known = {study["key"]: study for study in earlier["studies"]}
    is_tested = any(has_test_scores(suite.folder / key) for key in known)
    for study in plan["studies"]:
        study["is_late"] = known[study["key"]]["is_late"] if study["key"] in known else is_tested
    now = {study["key"] for study in plan["studies"]}
    gone = [study for key, study in known.items() if key not in now]
    axes = {
        axis: list(dict.fromkeys([*labels, *(study["labels"][axis] for study in gone)]))
        for axis, labels in plan["axes"].items()
    }
    plan = plan | {"studies": [*plan["studies"], *gone], "axes": axes, "version": earlier["version"]}
    plan["replaces"] = earlier["replaces"]
    if plan == earlier:
        return earlier
    return plan | {"version": earlier["version"] + 1, "replaces": hash_json(earlier)}


def _read_earlier(suite: Suite) -> dict[str, Any] | None:
    """Return the plan of an earlier start: of the suite's folder, or a copy of it in the folder of a study."""
    plans, errors = list[dict[str, Any]](), list[UserError]()
    for folder in (suite.folder, *(suite.folder / each.key for each in suite.planned)):
        try:
            if (folder / SUITE_FILE).is_file():
                plans.append(read_suite_plan(folder / SUITE_FILE).document)
        except UserError as error:
            errors.append(error)
    if errors and not plans:
        raise errors[0]
    return max(plans, key=lambda plan: int(plan["version"]), default=None)
