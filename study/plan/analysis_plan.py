"""Analysis plan, fixed before the first test score: systems, metric, comparisons and correction."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from records.data_statistics import STATISTICS_FILE
from records.plan_file import CLOCK_FILE, PLAN_FILE, RESTORE_HINT, SETUP_KEY, STUDY_FILE, SUITE_FILE, read_plan
from records.run_record import has_records, has_test_scores
from records.search_log import SEARCH_LOG_FILE
from study.config.loader import Study
from study.config.spaces import list_hyperparameters
from study.config.systems import (
    get_baseline,
    get_systems,
    list_default_comparisons,
    list_sanity_comparisons,
    list_switch_comparisons,
    list_trained_scores,
)
from study.plan.collections import plan_collections, plan_families
from study.plan.diff import list_changed_settings
from study.plan.shared_training import list_shared_beginnings
from study.plan.study_file import is_own_study_file
from trainables.utils.errors import UserError
from trainables.utils.files import is_temporary, write_json
from trainables.utils.hashing import hash_json, is_hash

_COMPARISONS = "analysis.comparisons"
_OWN_FILES = (CLOCK_FILE, SEARCH_LOG_FILE, STATISTICS_FILE, SUITE_FILE, "error.log", "wandb")
"""Files of a study without results, besides its plan."""


def build_plan(study: Study, model_digest: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the plan of a study: all confirmatory comparisons, all settings and a data description.

    The plan contains the digest of the model instead of its path, because the path of a local folder reveals where a
    user works.

    Args:
        study: the study, with tasks without paths.
        model_digest: digest of the files of the model.
        data: description of the data, from `DataBackend.describe_data`. If None, the data is not known yet.
    """
    public = study.model_copy(update={"model": study.model.model_copy(update={"name": model_digest})})
    baseline, first_stage = get_baseline(study), study.task.get_first_stage()
    order = [baseline, *(name for name in get_systems(study) if name != baseline)]
    queries = {split: data["splits"][split]["queries"] for split in ("dev", "test")} if data else {}
    comparisons = [list(pair) for pair in (*list_default_comparisons(study), *study.analysis.comparisons)]
    sanity = [list(pair) for pair in list_sanity_comparisons(study)]
    families = _build_families(study, comparisons) if comparisons else []
    if switches := [list(pair) for pair in list_switch_comparisons(study)]:
        families.append({"name": "switch", "correction": study.analysis.correction, "comparisons": switches})
    families.append({"name": "sanity", "correction": study.analysis.correction, "comparisons": sanity})
    if comparisons:
        families += plan_families(study, comparisons)
    if study.analysis.dev_comparisons and comparisons:
        family = {"name": "variants on dev", "correction": study.analysis.correction, "comparisons": comparisons}
        families.append(family | {"split": "dev"})
    excluded = dict.fromkeys(("tracking", "resources", "trial", "output", "cache", "expected"), True)
    settings = public.model_dump(mode="json", exclude=excluded)
    return {
        "study": study.name,
        "version": 1,
        "task": study.task.name,
        "alpha": study.analysis.alpha,
        "seeds": list(study.seeds),
        "confirm_seeds": list(study.confirm.seeds),
        "pruning": study.search.pruning,
        "budgets": {"hours": study.search.hours, "gpu_hours": study.search.gpu_hours},
        "metric": study.analysis.metric,
        "search_split": "dev",
        "test_split": "test",
        "systems": order,
        "expected_queries": queries,
        "data": data,
        "families": families,
        "shared_beginnings": [list(pair) for pair in list_shared_beginnings(study)],
        "settings": settings,
        "unit": study.study_type.unit,
        "hyperparameters": list(list_hyperparameters(study)),
        "margin": study.analysis.margin,
        "group_size": study.confirm.group_size,
        "seed_variance": study.analysis.seeds,
        "scorer_seed": study.scorer_seed if list_trained_scores(study) else None,
        "label_noise": study.task.describe_label_noise(),
        "first_stage": asdict(first_stage) if first_stage else None,
        "compared": _describe_compared(study, study.search.compare) if study.search.compare else None,
        **({"collections": collections} if (collections := plan_collections(study)) else {}),
    }


def _describe_compared(study: Study, name: str) -> dict[str, Any]:
    """Return the compared hyperparameter, and the variant and the value of each system that has it."""
    systems = [system for system in get_systems(study).values() if system.fixed]
    return {
        "hyperparameter": name,
        "systems": {system.name: {"variant": system.variant, "value": system.fixed[name]} for system in systems},
    }


def _build_families(study: Study, comparisons: list[list[str]]) -> list[dict[str, Any]]:
    """Return the families of comparisons of variants.

    If variants are compared in several metrics, the metric by which the study chooses is a separate family.
    """
    family: dict[str, Any] = {"name": "variants", "correction": study.analysis.correction, "comparisons": comparisons}
    metrics = study.study_type.list_metrics(study)
    if not metrics:
        return [family]
    return [family | {"name": study.analysis.metric}, family | {"metrics": list(metrics)}]


def check_folder(study: Study, folder: Path) -> None:
    """Check that a folder is empty or belongs to this study, before any computation starts.

    Raises:
        UserError: if the folder contains results of another study, results without a plan, or other files.
    """
    if (folder / PLAN_FILE).is_file():
        earlier = read_plan(folder / PLAN_FILE).document
        if earlier["study"] != study.name:
            expected = f"those of {study.name!r}, or another output.folder"
            raise UserError(str(folder), f"results of the study {earlier['study']!r}", expected)
    elif has_records(folder):
        raise UserError(
            str(folder / PLAN_FILE), f"missing, although {folder} contains results of a study", RESTORE_HINT
        )
    elif folder.is_dir() and any(not _is_own_file(path, study) for path in folder.iterdir()):
        raise UserError(str(folder), "a folder with other files", "an empty folder or results of this study")


def _is_own_file(path: Path, study: Study) -> bool:
    """Return whether an earlier start may have left this file before it recorded a result."""
    if path.name == "runs":
        return path.is_dir() and all(is_hash(run.name) for run in path.iterdir())
    if path.name == STUDY_FILE:
        return is_own_study_file(path)
    shared = path == study.cache_folder or path in study.cache_folder.parents
    is_marker = path.name.startswith(f".{PLAN_FILE}.")
    return shared or path.name in _OWN_FILES or is_marker or is_temporary(path)


class RegisteredPlan(NamedTuple):
    """The plan that is in force in a folder.

    Attributes:
        document: the plan, as it is stored.
        changes: settings and data that differ from the version before, as text. Empty if the plan is no new version.
    """

    document: dict[str, Any]
    hash: str
    changes: list[str]


def register_plan(
    study: Study,
    model_digest: str,
    folder: Path,
    data: dict[str, Any] | None = None,
    setup: dict[str, Any] | None = None,
) -> RegisteredPlan:
    """Return the current plan, and write it to plan.json if it is new.

    A plan that differs from the existing one becomes its next version. Comparisons that are added after test scores
    exist are listed as `exploratory`, also in every later version.

    Args:
        study: the study, with a task without paths.
        model_digest: digest of the files of the model.
        folder: folder of the study's results.
        data: description of the data, from `DataBackend.describe_data`. If None, the data is not known yet.
        setup: names for people, stored next to the plan: neither the plan nor its hash contains them.

    Raises:
        UserError: if the folder contains results of another study, or test scores from other settings.
    """
    check_folder(study, folder)
    plan, changes = build_plan(study, model_digest, data), list[str]()
    if (folder / PLAN_FILE).is_file():
        earlier = read_plan(folder / PLAN_FILE).document
        plan["version"] = earlier["version"]
        added = earlier.get("exploratory", [])
        if added:
            plan["exploratory"] = added
        if plan == {key: value for key, value in earlier.items() if key != "replaces"}:
            return RegisteredPlan(earlier, hash_json(earlier), [])
        changes = list_changed_settings(earlier, plan)
        _reject_late_changes(plan, earlier, folder, changes)
        plan |= {"version": earlier["version"] + 1, "replaces": hash_json(earlier)}
        known = [(family["name"], pair) for family in earlier["families"] for pair in family["comparisons"]]
        declared = [(family["name"], pair) for family in plan["families"] for pair in family["comparisons"]]
        new = [pair for name, pair in declared if (name, pair) not in known]
        if new and has_test_scores(folder):
            plan["exploratory"] = added + [pair for pair in new if pair not in added]
    document = {"plan": plan, "hash": hash_json(plan), **({SETUP_KEY: setup} if setup else {})}
    write_json(folder / PLAN_FILE, document, with_checksum=True)
    return RegisteredPlan(plan, hash_json(plan), changes)


def check_changes(study: Study, model_digest: str | None, data: dict[str, Any]) -> None:
    """Check that a start of the study would not fail because of what its folder contains. Writes nothing.

    What is resolved only when a study starts counts as unchanged: an automatic precision and the file of word vectors.

    Args:
        study: the study, with a task without paths.
        model_digest: digest of the files of the model. If None, the model is not known here and counts as unchanged.
        data: description of the data, from `DataBackend.describe_data`.

    Raises:
        UserError: if the folder contains results of another study, or test scores from other settings or other data.
    """
    folder = study.folder
    check_folder(study, folder)
    if not (folder / PLAN_FILE).is_file():
        return
    earlier = read_plan(folder / PLAN_FILE).document
    settings, curriculum, training = earlier["settings"], study.curriculum, study.training
    unset = [name for name, value in training.model_dump(mode="json").items() if value == "auto"]
    training = training.model_copy(update={name: settings["training"][name] for name in unset})
    if curriculum.vectors:
        curriculum = curriculum.model_copy(update={"vectors": settings["curriculum"]["vectors"]})
    study = study.model_copy(update={"training": training, "curriculum": curriculum})
    plan = build_plan(study, model_digest or settings["model"]["name"], data)
    _reject_late_changes(plan, earlier, folder, list_changed_settings(earlier, plan))
    before, now = (earlier["data"] or {}).get("fingerprint"), data["fingerprint"]
    if has_test_scores(folder) and before not in (None, now):
        expected = "another output.folder, or the same inputs and environment as before"
        raise UserError(str(folder), f"test scores from other data ({before}, now {now})", expected)


def _reject_late_changes(plan: dict[str, Any], earlier: dict[str, Any], folder: Path, changes: list[str]) -> None:
    """Raise UserError if results exist that the change would invalidate.

    After the first record the metric must not change. After the first test score, only `variants` may change, and
    `analysis.comparisons` may grow: what is added is exploratory, and what was declared still counts in the correction.
    """
    before, now = (_separate_comparisons(document["settings"]) for document in (earlier, plan))
    changed = {key for key in now.keys() | before.keys() if now.get(key) != before.get(key)}
    if all(pair in now[_COMPARISONS] for pair in before[_COMPARISONS]):
        changed.discard(_COMPARISONS)
    results = "test scores" if has_test_scores(folder) else "runs"
    recorded = any(folder.glob("runs/*/record.json"))
    if (results == "test scores" and changed - {"variants"}) or (recorded and plan["metric"] != earlier["metric"]):
        problem = f"{results} from before these settings changed: {'; '.join(changes)}"
        raise UserError(str(folder), problem, "the earlier values, or another output.folder for the changed study")


def _separate_comparisons(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings by section, with the comparisons that the study names as a section of their own."""
    declared = dict(settings["analysis"])
    comparisons = declared.pop("comparisons")
    return settings | {"analysis": declared, _COMPARISONS: comparisons}
