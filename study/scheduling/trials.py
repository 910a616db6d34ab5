"""From a system and its hyperparameters to runs, and from a run to the errand that a trial gets."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from search_spaces.curriculum import DEFAULTS
from search_spaces.space import Params
from study.config.schema import Study
from study.config.systems import UNTRAINED, get_systems
from study.records import run_record as record
from trainables.curriculum.settings import CurriculumSettings
from trainables.smoothing.schedules import compute_switch_instances
from trainables.specs.base import BaseSmoothing, BaseTrainingSettings, Environment, RunSpec
from trainables.specs.trial import TrialSpec
from trainables.utils.hashing import hash_json

Role = Literal["baseline", "search", "confirm", "scorer"]


def get_role(study: Study, name: str) -> Role:
    """Of a system's configurations while they are searched."""
    return "baseline" if name == study.study_type.baseline else "search"


class ResolvedInputs(NamedTuple):
    """What the study's names stand for on this machine."""

    fingerprint: str
    model_digest: str
    model_path: Path
    environment: Environment
    domains: str | None = None
    """Digest of the queries' domains."""
    vectors: str | None = None
    """Digest of the file of word vectors."""
    vectors_path: Path | None = None


class Configuration(NamedTuple):
    """One row of the study: a system at given settings, to be run with every seed."""

    name: str  # BERT, LS, ..., untrained, BM25
    params: Params
    smoothing: BaseSmoothing
    runs: tuple[RunSpec, ...]
    role: Role
    curriculum: CurriculumSettings | None = None

    @property
    def id(self) -> str:
        """Shared by all seeds."""
        return self.runs[0].configuration_id


class TrialRequest(NamedTuple):
    """A job with the labels its W&B run carries."""

    trial: TrialSpec
    labels: dict[str, Any]

    @property
    def split(self) -> record.Split:
        """The split it evaluates."""
        return "dev" if self.trial.action == "train" else "test"


class ConfigurationFactory:
    """Makes the configurations and errands of one study.

    Args:
        study: what was asked for; its training settings already resolved.
        resolved: data, model and environment.
        plan_hash: goes into every run's labels.
    """

    def __init__(self, study: Study, resolved: ResolvedInputs, plan_hash: str) -> None:
        self.study, self.resolved, self._plan_hash = study, resolved, plan_hash
        self._model = study.model.model_copy(update={"name": resolved.model_digest})
        self._systems, self._no_smoothing = get_systems(study), study.study_type.smoothing()
        self.scorer = self._make_trained_configuration(
            study.study_type.baseline,
            Params(),
            self._no_smoothing,
            study.training,
            [study.curriculum.seed],
            "scorer",
            None,
        )
        """The run whose weights say what is difficult, for those scores that ask a trained model."""

    def make_configuration(self, name: str, params: Params, seeds: Sequence[int], role: Role) -> Configuration:
        """A system at a point of its space."""
        training = self.study.training.model_copy(update=dict(params.optimisation))
        smoothing = self.study.study_type.make_smoothing(self._systems[name].variant, dict(params.smoothing))
        return self._make_trained_configuration(
            name, params, smoothing, training, seeds, role, self._make_curriculum_settings(params)
        )

    def make_reference_systems(self) -> list[Configuration]:
        """The model before any training, and the systems that nobody trains."""
        training = self.study.training.model_copy(update={"instances": 0})
        found = [
            self._make_trained_configuration(
                UNTRAINED, Params(), self._no_smoothing, training, self.study.seeds, "baseline", None
            )
        ]
        for name, system in self.study.study_type.reference_rankings.items():
            run = self._make_specification(system=system, variant=self._no_smoothing)
            found.append(Configuration(name, Params(), self._no_smoothing, (run,), "baseline"))
        return found

    def with_seeds(self, configuration: Configuration, seeds: Sequence[int], role: Role) -> Configuration:
        """The same with other seeds; a system without seeds is the same."""
        if configuration.runs[0].seed is None:
            return configuration
        runs = tuple(configuration.runs[0].model_copy(update={"seed": seed}) for seed in seeds)
        return configuration._replace(runs=runs, role=role)

    def list_fork_points(self, run: RunSpec) -> tuple[int, ...]:
        """Instances after which runs of the study turn their smoothing off, with this run's batch size."""
        training = run.training
        if training is None or not training.instances:
            return ()
        parts = self.study.search.switch if "two_stage" in self.study.search.schedule else ()
        return tuple(
            sorted({compute_switch_instances(part, training.instances, training.batch_size) for part in parts})
        )

    def make_request(self, configuration: Configuration, run: RunSpec, action: str) -> TrialRequest:
        """What a trial is asked to do for a run."""
        study, order = self.study, run.curriculum
        trial = TrialSpec.model_validate(
            {
                "specification": run,
                "action": action,
                "metric": study.analysis.metric,
                "cache": study.cache,
                "model_path": self.resolved.model_path,
                "stages": study.checkpoints_url,
                "interval": study.caching.interval,
                "study": hash_json(str(study.folder)),
                "vectors": self.resolved.vectors_path if order and order.vectors else None,
                "scores": configuration.role == "scorer",
                "cuts": self.list_fork_points(run),
            }
        )
        return TrialRequest(trial, self.make_labels(configuration, run))

    def make_labels(self, configuration: Configuration, run: RunSpec) -> dict[str, Any]:
        """The W&B config of a run: every key that one may want to group by."""
        return {
            "study": self.study.name,
            "trainable": self.study.trainable,
            "plan_hash": self._plan_hash,
            "specification_id": run.id,
            "configuration_id": configuration.id,
            "task": self.study.task.name,
            "variant": configuration.name,
            **configuration.smoothing.model_dump(mode="json"),
            **{name: getattr(run.training, name, None) for name in self.study.search.optimisation_params},
            **{name: getattr(configuration.curriculum, name, None) for name in DEFAULTS},
            "seed": run.seed,
            "role": configuration.role,
            "specification": run.model_dump(mode="json"),
        }

    def _make_trained_configuration(
        self,
        name: str,
        params: Params,
        smoothing: BaseSmoothing,
        training: BaseTrainingSettings,
        seeds: Sequence[int],
        role: Role,
        curriculum: CurriculumSettings | None,
    ) -> Configuration:
        assert training.epochs is None  # runs are named by their instances
        first = self._make_specification(
            model=self._model,
            training=training,
            variant=smoothing.canonicalize(),
            curriculum=curriculum.canonicalize() if curriculum else None,
            seed=seeds[0],
            environment=self.resolved.environment,
        )
        runs = tuple(first.model_copy(update={"seed": seed}) for seed in seeds)
        return Configuration(name, params, smoothing, runs, role, curriculum)

    def _make_specification(self, **parts: Any) -> RunSpec:
        return self.study.study_type.specification(task=self.study.task, data=self.resolved.fingerprint, **parts)

    def _make_curriculum_settings(self, params: Params) -> CurriculumSettings | None:
        if not params.curriculum:
            return None
        made_with = {"vectors": self.resolved.vectors, "scorer": self.scorer.runs[0].id}
        return CurriculumSettings.model_validate({**dict(params.curriculum), **made_with})
