"""Creates configurations and their runs from hyperparameters, and trial requests from runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from records.run_record import Split
from search_spaces.curriculum_params import DEFAULTS
from search_spaces.search_settings import LORA
from search_spaces.space import Params
from study.config.schema import UNTRAINED, Study
from study.config.systems import get_baseline, get_systems
from study.scheduling.used_plugins import list_plugins
from trainables.curriculum.curriculum_settings import CurriculumSettings
from trainables.smoothing.schedules import compute_switch_instances
from trainables.specs.run_spec import BaseModelSettings, BaseSmoothing, BaseTrainingSettings, Environment, RunSpec
from trainables.specs.trial import Collection, TrialSpec
from trainables.utils.hashing import hash_json

Role = Literal["baseline", "search", "confirm", "scorer"]


def get_role(study: Study, name: str) -> Role:
    """Return the role of a system's configurations during the search."""
    return "baseline" if name == get_baseline(study) else "search"


class ResolvedInputs(NamedTuple):
    """Data, model and environment of a study on this machine.

    Attributes:
        fingerprint: fingerprint of the prepared data.
        model_digest: digest of the files of the model.
        model_path: local folder of the model.
        environment: environment of the runs.
        domains: digest of the domains of the queries; None if they have no domains.
        vectors: digest of the file of word vectors; None if there is no such file.
        vectors_path: path of the file of word vectors.
        model_label: name of the model for people.
        data_label: name of the data for people.
        collections: further collections on which the tested models are evaluated.
        folder_digest: digest of the files of the model and its modules, which the ranking before training reads.
    """

    fingerprint: str
    model_digest: str
    model_path: Path
    environment: Environment
    domains: str | None = None
    vectors: str | None = None
    vectors_path: Path | None = None
    model_label: str = ""
    data_label: str = ""
    collections: tuple[Collection, ...] = ()
    folder_digest: str = ""


class PlannedConfiguration(NamedTuple):
    """System with fixed hyperparameters, which runs with every seed.

    Attributes:
        name: name of the system, such as BERT, LS or BM25.
        params: the hyperparameters.
        smoothing: settings of the smoothing.
        runs: one run for each seed.
        role: purpose of the configuration in the study.
        curriculum: settings of the curriculum; None without a curriculum.
    """

    name: str
    params: Params
    smoothing: BaseSmoothing
    runs: tuple[RunSpec, ...]
    role: Role
    curriculum: CurriculumSettings | None = None

    @property
    def id(self) -> str:
        """Id of the configuration, which all its seeds share."""
        return self.runs[0].configuration_id


class TrialRequest(NamedTuple):
    """Trial to execute, with the labels of its W&B run."""

    trial: TrialSpec
    labels: dict[str, Any]

    @property
    def split(self) -> Split:
        """Split that the trial evaluates."""
        return "dev" if self.trial.action == "train" else "test"


def build_trial(study: Study, run: RunSpec, vectors: Path | None, /, **settings: Any) -> TrialSpec:
    """Return the trial of a run; `vectors` is the file of word vectors, for a curriculum that needs one."""
    return TrialSpec(
        specification=run,
        metric=study.analysis.metric,
        cache=study.cache_folder,
        checkpoints=study.checkpoints_url,
        checkpoint_interval=study.cache.checkpoint_interval,
        vectors=vectors if run.curriculum and run.curriculum.vectors else None,
        plugins=study.plugins,
        **settings,
    )


class ConfigurationFactory:
    """Creates the configurations and trial requests of one study.

    Args:
        study: the study, with its training length in instances.
        resolved: data, model and environment of the study.
        plan_hash: hash of the plan, a label of every run.

    Attributes:
        scorer: configuration of the scoring run. Its model computes the difficulty scores that need one.
    """

    def __init__(self, study: Study, resolved: ResolvedInputs, plan_hash: str) -> None:
        self.study, self.resolved, self._plan_hash = study, resolved, plan_hash
        self._model = study.model.model_copy(update={"name": resolved.model_digest})
        self._systems, self._no_smoothing = get_systems(study), study.study_type.smoothing()
        self.scorer = self._make_trained_configuration(
            study.study_type.baseline,
            Params(),
            self._no_smoothing,
            study.scorer_training,
            [study.scorer_seed],
            "scorer",
            None,
        )

    def make_configuration(self, name: str, params: Params, seeds: Sequence[int], role: Role) -> PlannedConfiguration:
        """Create the configuration of a system at fixed hyperparameters."""
        values = dict(params.optimisation)
        lora = {key.removeprefix(LORA): values.pop(key) for key in [*values] if key.startswith(LORA)}
        training = self.study.training.model_copy(update=values)
        model = self._model.model_copy(update={"lora": self._model.lora.model_copy(update=lora)})
        smoothing = self.study.study_type.make_smoothing(self._systems[name].variant, dict(params.smoothing))
        smoothing = smoothing.for_task(self.study.task)
        return self._make_trained_configuration(
            name, params, smoothing, training, seeds, role, self._make_curriculum_settings(params), model
        )

    def make_reference_systems(self) -> list[PlannedConfiguration]:
        """Create the configurations of the systems that are not trained: the model before training, and BM25."""
        plain, training = self._no_smoothing, self.study.training.model_copy(update={"instances": 0})
        rankings = {name: dict[str, Any](system=system) for name, system in self.study.reference_rankings.items()}
        configurations = list[PlannedConfiguration]()
        if self.study.starting_ranking is None:
            seeds = self.study.seeds
            configurations.append(
                self._make_trained_configuration(UNTRAINED, Params(), plain, training, seeds, "baseline", None)
            )
        else:
            name, system = self.study.starting_ranking
            model = self._model.model_copy(update={"name": self.resolved.folder_digest})
            rankings[name] = {
                "system": system, "model": model, "training": training, "environment": self.resolved.environment
            }  # fmt: skip
        for name, parts in rankings.items():
            run = self._make_specification(**parts, variant=plain)
            configurations.append(PlannedConfiguration(name, Params(), plain, (run,), "baseline"))
        return configurations

    def with_fresh_seeds(self, configuration: PlannedConfiguration, seeds: Sequence[int]) -> PlannedConfiguration:
        """Return the configuration with the seeds of the confirmation; one without seeds is returned unchanged."""
        if configuration.runs[0].seed is None:
            return configuration
        runs = tuple(configuration.runs[0].model_copy(update={"seed": seed}) for seed in seeds)
        return configuration._replace(runs=runs, role="confirm")

    def list_fork_points(self, run: RunSpec) -> tuple[int, ...]:
        """Return the instances after which runs of the study, with this run's batch size, turn off smoothing."""
        training = run.training
        if training is None or not training.instances:
            return ()
        shares = self.study.search.smoothing_grid["switch"] if "two_stage" in self.study.search.schedule else ()
        return tuple(
            sorted({compute_switch_instances(share, training.instances, training.batch_size) for share in shares})
        )

    def make_request(self, configuration: PlannedConfiguration, run: RunSpec, action: str) -> TrialRequest:
        """Create the trial request of a run; `action` is "train", with the dev evaluation, or "test"."""
        trial = build_trial(
            self.study,
            run,
            self.resolved.vectors_path,
            model_path=self.resolved.model_path,
            saves_difficulty=configuration.role == "scorer",
            action=action,
            study=hash_json(str(self.study.folder)),
            fork_points=self.list_fork_points(run),
            collections=self.resolved.collections if action == "test" and configuration.role != "scorer" else (),
        )
        return TrialRequest(trial, self.make_labels(configuration, run))

    def make_labels(self, configuration: PlannedConfiguration, run: RunSpec) -> dict[str, Any]:
        """Return the W&B config of a run, with all keys that a user may want to group by."""
        searched = dict(configuration.params.optimisation)
        return {
            "study": self.study.name,
            "trainable": self.study.trainable,
            "plan_hash": self._plan_hash,
            "specification_id": run.id,
            "configuration_id": configuration.id,
            "task": self.study.task.name,
            "data": self.resolved.data_label,
            "model": self.resolved.model_label if run.model else None,
            "variant": configuration.name,
            **dict(configuration.smoothing),
            "has_probabilities": configuration.smoothing.has_probabilities,
            **{name: getattr(run.training, name, None) for name in self.study.search.optimisation_params},
            **{name: searched.get(name) for name in self.study.search.adapter_params},
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
        model: BaseModelSettings | None = None,
    ) -> PlannedConfiguration:
        assert training.epochs is None  # the id of a run is a hash of its instances
        first = self._make_specification(
            model=model or self._model,
            training=training,
            variant=smoothing.canonicalize(),
            curriculum=curriculum.canonicalize() if curriculum else None,
            seed=seeds[0],
            environment=self.resolved.environment,
        )
        runs = tuple(first.model_copy(update={"seed": seed}) for seed in seeds)
        return PlannedConfiguration(name, params, smoothing, runs, role, curriculum)

    def _make_specification(self, **parts: Any) -> RunSpec:
        study = self.study
        task = study.task.for_specification()
        run = study.study_type.specification(task=task, data=self.resolved.fingerprint, **parts)
        return run.model_copy(update={"plugins": list_plugins(run, study.trainable)})

    def _make_curriculum_settings(self, params: Params) -> CurriculumSettings | None:
        if not params.curriculum:
            return None
        inputs = {
            "vectors": self.resolved.vectors,
            "scorer": self.scorer.runs[0].id,
            "words": self.study.curriculum.words,
        }
        return CurriculumSettings.model_validate({**dict(params.curriculum), **inputs})
