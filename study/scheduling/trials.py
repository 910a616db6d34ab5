"""From a system and its hyperparameters to runs, and from a run to the errand that a trial gets."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from search_spaces.curriculum import DEFAULTS
from search_spaces.space import Point
from study.config.schema import Study
from study.config.systems import UNTRAINED, systems
from study.records import run_record as record
from trainables.curriculum.settings import CurriculumSettings
from trainables.smoothing.schedules import switch_instances
from trainables.specs.base import CommonTraining, Environment, Smoothing, Specification
from trainables.specs.job import Job
from trainables.utils.hashing import digest

Role = Literal["baseline", "search", "confirm", "scorer"]


def role(study: Study, name: str) -> Role:
    """Of a system's configurations while they are searched."""
    return "baseline" if name == study.kind.baseline else "search"


class Resolved(NamedTuple):
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
    point: Point
    variant: Smoothing
    runs: tuple[Specification, ...]
    role: Role
    curriculum: CurriculumSettings | None = None

    @property
    def id(self) -> str:
        """Shared by all seeds."""
        return self.runs[0].configuration_id


class Errand(NamedTuple):
    """A job with the labels its W&B run carries."""

    job: Job
    labels: dict[str, Any]

    @property
    def split(self) -> record.Split:
        """The split it evaluates."""
        return "dev" if self.job.action == "train" else "test"


class Maker:
    """Makes the configurations and errands of one study.

    Args:
        study: what was asked for; its training settings already resolved.
        resolved: data, model and environment.
        plan_hash: goes into every run's labels.
    """

    def __init__(self, study: Study, resolved: Resolved, plan_hash: str) -> None:
        self.study, self.resolved, self._plan_hash = study, resolved, plan_hash
        self._model = study.model.model_copy(update={"name": resolved.model_digest})
        self._systems, self._plain = systems(study), study.kind.smoothing()
        self.scorer = self._trained(
            study.kind.baseline, Point(), self._plain, study.training, [study.curriculum.seed], "scorer", None
        )
        """The run whose weights say what is difficult, for those scores that ask a trained model."""

    def system(self, name: str, point: Point, seeds: Sequence[int], role: Role) -> Configuration:
        """A system at a point of its space."""
        training = self.study.training.model_copy(update=dict(point.optimisation))
        variant = self.study.kind.smoothed(self._systems[name].variant, dict(point.smoothing))
        return self._trained(name, point, variant, training, seeds, role, self._curriculum(point))

    def controls(self) -> list[Configuration]:
        """The model before any training, and the systems that nobody trains."""
        training = self.study.training.model_copy(update={"instances": 0})
        found = [self._trained(UNTRAINED, Point(), self._plain, training, self.study.seeds, "baseline", None)]
        for name, system in self.study.kind.orders.items():
            run = self._specification(system=system, variant=self._plain)
            found.append(Configuration(name, Point(), self._plain, (run,), "baseline"))
        return found

    def again(self, configuration: Configuration, seeds: Sequence[int], role: Role) -> Configuration:
        """The same with other seeds; a system without seeds is the same."""
        if configuration.runs[0].seed is None:
            return configuration
        runs = tuple(configuration.runs[0].model_copy(update={"seed": seed}) for seed in seeds)
        return configuration._replace(runs=runs, role=role)

    def cuts(self, run: Specification) -> tuple[int, ...]:
        """Instances after which runs of the study turn their smoothing off, with this run's batch size."""
        training = run.training
        if training is None or not training.instances:
            return ()
        parts = self.study.search.switch if "two_stage" in self.study.search.schedule else ()
        return tuple(sorted({switch_instances(part, training.instances, training.batch_size) for part in parts}))

    def errand(self, configuration: Configuration, run: Specification, action: str) -> Errand:
        """What a trial is asked to do for a run."""
        study, order = self.study, run.curriculum
        job = Job.model_validate(
            {
                "specification": run,
                "action": action,
                "metric": study.analysis.metric,
                "cache": study.cache,
                "model_path": self.resolved.model_path,
                "stages": study.stages,
                "interval": study.caching.interval,
                "study": digest(str(study.folder)),
                "vectors": self.resolved.vectors_path if order and order.vectors else None,
                "scores": configuration.role == "scorer",
                "cuts": self.cuts(run),
            }
        )
        return Errand(job, self.labels(configuration, run))

    def labels(self, configuration: Configuration, run: Specification) -> dict[str, Any]:
        """The W&B config of a run: every key that one may want to group by."""
        return {
            "study": self.study.name,
            "trainable": self.study.trainable,
            "plan_hash": self._plan_hash,
            "specification_id": run.id,
            "configuration_id": configuration.id,
            "task": self.study.task.name,
            "variant": configuration.name,
            **configuration.variant.model_dump(mode="json"),
            **{name: getattr(run.training, name, None) for name in self.study.search.optimised},
            **{name: getattr(configuration.curriculum, name, None) for name in DEFAULTS},
            "seed": run.seed,
            "role": configuration.role,
            "specification": run.model_dump(mode="json"),
        }

    def _trained(
        self,
        name: str,
        point: Point,
        variant: Smoothing,
        training: CommonTraining,
        seeds: Sequence[int],
        role: Role,
        curriculum: CurriculumSettings | None,
    ) -> Configuration:
        assert training.epochs is None  # runs are named by their instances
        first = self._specification(
            model=self._model,
            training=training,
            variant=variant.normalised(),
            curriculum=curriculum.normalised() if curriculum else None,
            seed=seeds[0],
            environment=self.resolved.environment,
        )
        runs = tuple(first.model_copy(update={"seed": seed}) for seed in seeds)
        return Configuration(name, point, variant, runs, role, curriculum)

    def _specification(self, **parts: Any) -> Specification:
        return self.study.kind.specification(task=self.study.task, data=self.resolved.fingerprint, **parts)

    def _curriculum(self, point: Point) -> CurriculumSettings | None:
        if not point.curriculum:
            return None
        made_with = {"vectors": self.resolved.vectors, "scorer": self.scorer.runs[0].id}
        return CurriculumSettings.model_validate({**dict(point.curriculum), **made_with})
