"""Finds out which keys of a study file the ids of runs depend on: changes a key and compares the ids.

The product's own code reads a tiny study, resolves it and decides which runs it makes, once as it is and once with
another value of the key. Nothing is trained: results are drawn from the ids. No answer is written by hand.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin
from unittest.mock import patch

import numpy as np

from docs.scripts.study_keys import N_CONFIGURATIONS, StudyKey, list_study_keys, list_value_types
from docs.scripts.tiny_studies import CONTEXT, STUDIES, VALUES, write_inputs
from search_spaces.registry import STUDY_TYPES, get_study_type
from study.config.loader import Study, load_study
from study.execution.resolve import resolve_study
from study.records.run_record import Split
from study.records.run_store import RunStore, State
from study.scheduling.budget import ElapsedTime, find_exhausted_budget
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.trials import TrialRequest
from trainables.data import ranking_dataset, ranking_preparation
from trainables.data.tasks import IRDataset
from trainables.specs import environment
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.arrays import Floats
from trainables.utils.checksums import write_folder_with_checksums
from trainables.utils.errors import UserError
from trainables.utils.random import make_generator


class Answer(StrEnum):
    """What a key does to the ids of runs."""

    YES = "yes"
    """A run with another value has another id."""
    CONTENT = "content"
    """The key names files. The id depends on their content, not on their place."""
    RUNS = "which runs"
    """The key decides which runs there are. A run that is made with both values has the same id."""
    NO = "no"
    """The same runs are made, with the same ids."""
    FIXED = "-"
    """The key has one possible value, or the trainable does not use it."""


_N_VALUES = 20
"""Values that a simulated run has of each metric."""
_HOURS = 1.0
"""Hours that the study has run when it begins, for the keys that limit them."""
_ORDER = (Answer.YES, Answer.CONTENT, Answer.RUNS, Answer.NO)
"""Answers in the order in which they count if the values of a key have several."""

Runs = dict[tuple[object, ...], str]
"""System, hyperparameters and seed of a run -> its id."""


def find_answers(trainable: str) -> dict[str, Answer]:
    """Return the answer for every key that a study of a trainable has, by the name of the key."""
    with tempfile.TemporaryDirectory() as name, chdir(name), _simulate():  # some values are relative folders
        folder = Path(name)
        write_inputs(folder)
        tiny = _TinyStudy(trainable, folder)
        return {key.name: tiny.find_answer(key) for key in list_study_keys(trainable)}


def classify(before: Runs, after: Runs) -> Answer:
    """Return the answer that follows from the runs of a study with two values of a key.

    Args:
        before: the runs with one value.
        after: the runs with the other value.

    Example:
        >>> classify({("LS", 1): "a", ("LS", 2): "b"}, {("LS", 1): "a"}).value
        'which runs'
        >>> classify({("LS", 1): "a"}, {("LS", 1): "c"}).value
        'yes'
    """
    if any(before[label] != after[label] for label in before.keys() & after.keys()):
        return Answer.YES
    if {*before.values()} == {*after.values()}:
        return Answer.NO
    return Answer.RUNS if {*before.values()} & {*after.values()} else Answer.YES


class _TinyStudy:
    """The tiny study of a trainable.

    Args:
        trainable: name of the trainable.
        folder: folder with the inputs of the study.
    """

    def __init__(self, trainable: str, folder: Path) -> None:
        self._trainable, self._folder = trainable, folder
        self._file = folder / f"{trainable}.toml"
        self._file.write_text(self._expand(STUDIES[trainable]), encoding="utf-8")
        self._list_runs = cache(self._simulate_runs)

    def find_answer(self, key: StudyKey) -> Answer:
        """Return the answer for a key.

        Raises:
            ValueError: if no other value of the key is known.
        """
        if key.field == "trainable":
            others = [_TinyStudy(name, self._folder) for name in STUDY_TYPES if name != self._trainable]
            return _choose_answer(classify(self._list_runs(), other._list_runs()) for other in others)
        if key.field == N_CONFIGURATIONS:
            keys = list_study_keys(self._trainable)
            return _choose_answer(self.find_answer(own) for own in keys if own.field.startswith(f"{key.field}."))
        if key.section == "curriculum" and not get_study_type(self._trainable).has_curricula:
            return Answer.FIXED
        context = tuple(map(self._expand, CONTEXT.get(key.name, ())))
        value = _get_value(load_study(str(self._file), context), key)
        inputs = str(self._folder / "inputs")
        if isinstance(value, tuple) and len(value) == 1:
            (value,) = value
        if isinstance(value, str) and value.startswith(inputs):
            moved, changed = (
                self._compare(key, context, value.replace(inputs, str(self._folder / place)))
                for place in ("moved", "changed")
            )
            return Answer.CONTENT if (moved, changed) == (Answer.NO, Answer.YES) else moved
        if get_origin(key.annotation) is Literal and len(get_args(key.annotation)) == 1:
            return Answer.FIXED
        known = map(self._expand, VALUES[key.name]) if key.name in VALUES else _iter_values(key.annotation, value)
        allowed = [text for text in known if self._is_allowed(_replace(context, key, text))]
        if not allowed:
            raise ValueError(f"{key.name}: no other value than {value!r} is known; add one to VALUES")
        return _choose_answer(self._compare(key, context, text) for text in allowed)

    def _compare(self, key: StudyKey, context: Sequence[str], text: str) -> Answer:
        return classify(self._list_runs(*context), self._list_runs(*_replace(context, key, text)))

    def _is_allowed(self, overrides: Sequence[str]) -> bool:
        try:
            load_study(str(self._file), overrides)
        except UserError:
            return False
        return True

    def _expand(self, text: str) -> str:
        return text.replace("{folder}", str(self._folder))

    def _simulate_runs(self, *overrides: str) -> Runs:
        """Return the runs that the study makes with these overrides."""
        study, resolved, prepared = resolve_study(load_study(str(self._file), overrides), None, lambda line: None)
        study = study.model_copy(update={"task": prepared.settings})
        environment = resolved.environment.model_copy(update={"instruction_set": "any"})  # the same on every machine
        resolved = resolved._replace(environment=environment)
        with tempfile.TemporaryDirectory(dir=self._folder) as results:
            records = _SimulatedRecords(Path(results))
            elapsed = ElapsedTime(records.folder, time.monotonic() - 3600 * _HOURS, print)
            scheduler = StudyScheduler(
                study, resolved, records, "", lambda: find_exhausted_budget(study, elapsed, records)
            )
            while (request := scheduler.pop_request()) is not None:
                records.finish(request)
                scheduler.mark_ended(request)
            assert scheduler.is_finished
        return {
            (item.name, *item.params.values.items(), run.seed): run.id
            for item in scheduler.configurations
            for run in item.runs
            if records.is_finished(run.id)
        }


class _SimulatedRecords(RunStore):
    """Records of runs that were not trained. Every result is drawn from the ids of configuration and run."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._finished: dict[tuple[str, Split], str] = {}

    def finish(self, request: TrialRequest) -> None:
        """Record that a trial is finished."""
        self._finished[request.trial.specification.id, request.split] = request.labels["configuration_id"]

    def get_state(self, run_id: str, split: Split = "dev") -> State | None:
        """Return the state of an evaluation."""
        return "finished" if (run_id, split) in self._finished else None

    def get_summary(self, run_id: str, split: Split = "dev") -> dict[str, Any] | None:
        """Return an empty summary."""
        return {}

    def compute_per_query(self, run_id: str, metric: str, split: Split = "dev") -> Floats:
        """Return values that differ much between configurations and little between their seeds.

        Metrics of one set of sentence pairs are the same, as the dev split has one set.
        """
        name = metric.partition("/")[0]
        level = _draw(self._finished[run_id, split], name).random()
        return level + 0.01 * _draw(run_id, name).random(_N_VALUES)

    def compute_overall(self, run_id: str, metric: str, split: Split = "dev") -> float:
        """Return the mean of the values."""
        return float(self.compute_per_query(run_id, metric, split).mean())

    def refresh(self, run_id: str, split: Split) -> State | None:
        """Return the state of an evaluation."""
        return self.get_state(run_id, split)

    @property
    def gpu_seconds(self) -> float:
        """An hour for each run."""
        return 3600.0 * len(self._finished)


def _draw(name: str, purpose: str) -> np.random.Generator:
    return make_generator(int(name, 16), purpose, 0)


def _replace(context: Sequence[str], key: StudyKey, text: str) -> list[str]:
    """Return the settings of a context with this value of a key."""
    return [*(setting for setting in context if not setting.startswith(f"{key.name}=")), f"{key.name}={text}"]


def _choose_answer(answers: Iterable[Answer]) -> Answer:
    return min(answers, key=_ORDER.index)


def _get_value(study: Study, key: StudyKey) -> Any:
    value: Any = study
    for name in key.field.replace("cache.", "caching.").split("."):
        value = value.get(name, key.default) if isinstance(value, dict) else getattr(value, name)
    return value


def _iter_values(annotation: Any, value: Any) -> Iterator[str]:
    """Yield other values of a key as texts, from its type and its value in the tiny study."""
    kind = list_value_types(annotation)[0]
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        yield from (other for other in get_args(kind) if other != value)
    elif kind is bool:
        yield str(not value).lower()
    elif kind is int:
        yield str(5 if value is None else value + 1)
    elif kind is float:
        yield str(value / 2 if value else 0.5)
    elif kind is str:
        yield "other"
    elif get_origin(kind) is dict:
        yield "{other = 1}"
    elif isinstance(value, tuple) and len(value) > 1:
        yield json.dumps(value[:-1])


@contextmanager
def _simulate() -> Iterator[None]:
    """Let studies be resolved without sampling negatives, on which no id depends, and with a GPU."""
    with (
        patch.object(ranking_preparation, "_sample_and_write", _write_counts),
        patch.object(ranking_preparation, "write_teacher_scores", lambda *_: None),
        patch.object(environment, "_get_gpu_name", lambda: "a GPU"),
    ):
        yield


def _write_counts(
    prepared: ranking_dataset.RankingDataset,
    work_folder: Path,
    settings: RankerTaskSettings,
    dataset: IRDataset,
    report: Callable[[str], None],
) -> None:
    """Write prepared data that has only the number of queries of each split."""
    queries = ranking_preparation.select_queries(settings, dataset)
    splits = {split: {"queries": len(names)} for split, names in queries.items()}
    with write_folder_with_checksums(prepared.folder) as draft:
        (draft / "meta.json").write_text(json.dumps({"splits": splits}), encoding="utf-8")
