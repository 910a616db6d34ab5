"""Further collections of a study: their data, and what the plan says of them."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from records.plan import COLLECTIONS
from study.config.schema import EvaluatedCollection, Study
from trainables.specs.plugin import PreparedData
from trainables.specs.trial import Collection
from trainables.utils.errors import UserError


def prepare_collections(study: Study, log: Callable[[str], None]) -> tuple[Study, tuple[Collection, ...]]:
    """Prepare the data of all further collections if necessary.

    Returns:
        The study with their settings without paths, and the collections for its trials.

    Raises:
        UserError: the files of a collection are not what the study says.
    """
    backend, prepared = study.study_type.trainable.data_backend, list[PreparedData]()
    for each in study.evaluate:
        log(f"collection {each.label}")
        with _mention(each):
            prepared.append(backend.prepare_data(each.task, study.cache_folder, log))
    return _describe(study, prepared)


def find_collections(study: Study) -> Study | None:
    """Return the study with the settings of its collections without paths; None if one is not prepared yet."""
    backend = study.study_type.trainable.data_backend
    prepared = list[PreparedData]()
    for each in study.evaluate:
        with _mention(each):
            if (found := backend.find_prepared_data(each.task, study.cache_folder)) is None:
                return None
        prepared.append(found)
    return _describe(study, prepared)[0]


@contextmanager
def _mention(each: EvaluatedCollection) -> Iterator[None]:
    """Begin a message about bad input with the label of the collection that it is about."""
    try:
        yield
    except UserError as error:
        error.args = ("\n".join(f"evaluate, {each.label}: {line}" for line in str(error).split("\n")),)
        raise


def _describe(study: Study, prepared: Sequence[PreparedData]) -> tuple[Study, tuple[Collection, ...]]:
    pairs = list(zip(study.evaluate, prepared, strict=True))
    portable = tuple(each.model_copy(update={"task": own.settings}) for each, own in pairs)
    collections = tuple(
        Collection(
            label=each.label, data=own.fingerprint, metric=each.metric, task=own.settings.model_dump(mode="json")
        )
        for each, own in pairs
    )
    return study.model_copy(update={"evaluate": portable}), collections


def plan_collections(study: Study) -> list[dict[str, str]]:
    """Return what the plan says of each collection."""
    planned = list[dict[str, str]]()
    for each in study.evaluate:
        stage = each.task.get_first_stage()
        candidates = f"{stage.source}, none added" if stage else "sampled, the relevant documents among them"
        planned.append({"label": each.label, "metric": each.metric, "candidates": candidates})
    return planned


def plan_families(study: Study, comparisons: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Return a family for each collection, and one for the mean over those with a common metric.

    Args:
        study: the study.
        comparisons: pairs of a system and its baseline, the same in each family.
    """
    own = {"correction": study.analysis.correction, "comparisons": [list(pair) for pair in comparisons]}
    families = [{"name": each.label, **own, "metrics": [each.metric], "split": each.label} for each in study.evaluate]
    metrics = Counter(each.metric for each in study.evaluate)
    if len(study.evaluate) > 1 and len(metrics) == 1:
        families.append(
            {"name": f"mean of {len(study.evaluate)} collections", **own, "metrics": [*metrics], "split": COLLECTIONS}
        )
    return families
