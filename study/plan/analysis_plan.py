"""What is declared before the first test score exists: systems, metric, comparisons, correction."""

from pathlib import Path
from typing import Any

from analysis.data.plan import HYPERPARAMETERS
from search_spaces.registry import StudyType
from study.config.loader import Study
from study.config.systems import (
    UNTRAINED,
    find_random_order_system,
    find_system_without_curriculum,
    get_systems,
    list_trained_scores,
)
from study.records import run_record as record
from study.records.plan_file import PLAN_FILE, RESTORE_HINT, read_plan
from study.scheduling.objectives import get_objectives
from trainables.utils.errors import UserError
from trainables.utils.files import write_json
from trainables.utils.hashing import hash_json


def build_plan(study: Study, model_digest: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
    """The study's plan: every comparison that may later be called confirmatory, all settings, and what the data is.

    The model stands in it by its digest, since a local folder's path says who works where.

    Args:
        study: what was asked for, its task without paths.
        model_digest: of the model's files.
        data: what the trainable's `described` says of it; none: not known yet.
    """
    public = study.model_copy(update={"model": study.model.model_copy(update={"name": model_digest})})
    named, kind = get_systems(study), study.study_type
    order = [kind.baseline, *(name for name in named if name != kind.baseline)]
    queries = {split: data["splits"][split]["queries"] for split in ("dev", "test")} if data else {}
    comparisons = [[name, kind.baseline] for name in order if name != kind.baseline]
    comparisons += [list(pair) for pair in kind.comparisons if set(pair) <= set(order)]
    comparisons += [[name, other] for name in order if (other := find_random_order_system(study, name))]
    comparisons += [[name, other] for name in order if (other := find_system_without_curriculum(study, name))]
    sanity = [[kind.baseline, name] for name in (*kind.reference_rankings, UNTRAINED)]
    families = _build_families(study, comparisons) if comparisons else []
    families.append({"name": "sanity", "correction": study.analysis.correction, "comparisons": sanity})
    settings = public.model_dump(mode="json", exclude={"tracking", "resources", "trial", "output", "caching"})
    if study.analysis.margin is None:
        del settings["analysis"]["margin"]  # plans made before there was one stand
    if not study.curriculum.variants:
        del settings["curriculum"]  # the same
    return {
        "study": study.name,
        "version": 1,
        "task": study.task.name,
        "alpha": study.analysis.alpha,
        "seeds": list(study.seeds),
        "confirm_seeds": list(study.confirm.seeds),
        "objectives": list(get_objectives(study)),
        "pruning": study.search.pruning,
        "budgets": {"hours": study.search.hours, "gpu_hours": study.search.gpu_hours},
        "metric": study.analysis.metric,
        "search_split": "dev",
        "test_split": "test",
        "systems": order,
        "expected_queries": queries,
        "data": data,
        "families": families,
        "settings": settings,
        **({"unit": kind.unit} if kind.unit != StudyType.unit else {}),
        **(
            {"hyperparameters": list(kind.hyperparameter_names)} if kind.hyperparameter_names != HYPERPARAMETERS else {}
        ),
        **({"margin": study.analysis.margin} if study.analysis.margin else {}),
        **({"scorer_seed": study.curriculum.seed} if list_trained_scores(study) else {}),
    }


def _build_families(study: Study, comparisons: list[list[str]]) -> list[dict[str, Any]]:
    """The comparisons of variants; where these are made in several metrics, that by which the study chooses is a family
    of its own."""
    found: dict[str, Any] = {"name": "variants", "correction": study.analysis.correction, "comparisons": comparisons}
    metrics = study.study_type.list_metrics(study)
    if not metrics:
        return [found]
    return [found | {"name": study.analysis.metric}, found | {"metrics": list(metrics)}]


def check_folder(study: Study, folder: Path) -> None:
    """Refuses, before anything is spent, to mix this study's results with other things.

    Raises:
        UserError: the folder holds another study's results, results without a plan, or something else.
    """
    if (folder / PLAN_FILE).is_file():
        earlier = read_plan(folder / PLAN_FILE)
        if earlier["study"] != study.name:
            raise UserError(str(folder), f"results of the study {earlier['study']!r}", f"those of {study.name!r}")
    elif any(folder.glob("runs/*/record.json")):
        raise UserError(str(folder / PLAN_FILE), f"missing beside the results of a study in {folder}", RESTORE_HINT)
    elif folder.is_dir() and any(not _is_own_file(path, study) for path in folder.iterdir()):
        raise UserError(str(folder), "a folder with other things in it", "an empty folder or this study's results")


def _is_own_file(path: Path, study: Study) -> bool:
    """What an earlier start may have left before there was a plan."""
    shared = path == study.cache or path in study.cache.parents
    return shared or path.name == "error.log" or path.name.startswith(".plan.json.")


def register_plan(
    study: Study, model_digest: str, folder: Path, data: dict[str, Any] | None = None
) -> tuple[dict[str, Any], str]:
    """The plan in force and its hash; written to plan.json when it is new.

    A plan that differs from the one already there becomes its next version. Comparisons that it adds once test scores
    exist are listed as `exploratory`, and stay so in every later version.

    Raises:
        UserError: the folder holds another study's results, or test scores that other settings led to.
    """
    check_folder(study, folder)
    plan = build_plan(study, model_digest, data)
    if (folder / PLAN_FILE).is_file():
        earlier = read_plan(folder / PLAN_FILE)
        plan["version"] = earlier["version"]
        added = earlier.get("exploratory", [])
        if added:
            plan["exploratory"] = added
        if plan == {key: value for key, value in earlier.items() if key != "replaces"}:
            return earlier, hash_json(earlier)
        _reject_late_changes(plan, earlier, folder)
        plan |= {"version": earlier["version"] + 1, "replaces": hash_json(earlier)}
        known = [pair for family in earlier["families"] for pair in family["comparisons"]]
        new = [pair for family in plan["families"] for pair in family["comparisons"] if pair not in known]
        if new and record.has_test_scores(folder):
            plan["exploratory"] = added + [pair for pair in new if pair not in added]
    write_json(folder / PLAN_FILE, {"plan": plan, "hash": hash_json(plan)}, with_checksum=True)
    return plan, hash_json(plan)


def _reject_late_changes(plan: dict[str, Any], earlier: dict[str, Any], folder: Path) -> None:
    """Once test scores exist, only further variants may be declared; the metric stands from the first record on."""
    before, now = earlier["settings"], plan["settings"]
    changed = {key for key in now.keys() | before.keys() if now.get(key) != before.get(key)}
    tested = record.has_test_scores(folder)
    recorded = any(folder.glob("runs/*/record.json"))
    if (tested and changed - {"variants"}) or (recorded and plan["metric"] != earlier["metric"]):
        found = f"results obtained under other settings ({', '.join(sorted(changed))})"
        raise UserError(str(folder), found, "another output.folder for the changed study")
