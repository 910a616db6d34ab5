"""Final weights of a run: kept in the study's folder, in the cache, or trained again."""

from collections.abc import Callable

from torch import Tensor

from records.run_record import read_run_record
from study.config.schema import Study
from study.folder.kept_models import MODELS_FOLDER, open_kept_models
from study.models.chosen import ChosenRun, make_trial
from trainables.specs.checkpoint_chain import checkpoint_key
from trainables.specs.environment import detect_environment
from trainables.specs.plugin import get_trainable
from trainables.specs.run_spec import RunSpec
from trainables.specs.trial import TrialSpec
from trainables.storage import open_storage
from trainables.training.checkpoints import CheckpointStore
from trainables.training.trainer import hash_weights
from trainables.utils.errors import MachineError, UserError


def load_final_weights(study: Study, run: ChosenRun, trial: TrialSpec, log: Callable[[str], None]) -> dict[str, Tensor]:
    """Return the trained parameters of a run by name, as the study had them.

    If they are neither in the study's folder nor in the cache, the run is trained again, which gives the same bits.

    Raises:
        UserError: the weights are gone, and this machine would train others.
        MachineError: the weights are not those that the record names.
    """
    weights = _find_weights(study, run.specification, log)
    if weights is None:
        _check_environment(run)
        log(f"training {run.label} again: its weights are neither in {MODELS_FOLDER} nor in the cache")
        weights = _train(study, trial, log)
    recorded, actual = run.summary.get("weights"), hash_weights(weights)
    if recorded not in (None, actual):
        found = f"hash {actual[:16]}, but {recorded[:16]} in the record of run {run.specification.id}"
        remedy = "restore the study's folder from a backup, or name another --seed"
        raise MachineError(f"the weights of {run.label} are not those of the study: {found}", remedy)
    return weights


def _find_weights(study: Study, specification: RunSpec, log: Callable[[str], None]) -> dict[str, Tensor] | None:
    assert specification.training is not None
    key = checkpoint_key(specification, specification.training.instances)
    places = (open_kept_models(study.folder), specification.id), (open_storage(study.checkpoints_url), key)
    for storage, folder in places:
        store = CheckpointStore(storage)
        checkpoint = store.load(folder)
        for message in store.damage_messages:
            log(message)
        if checkpoint is not None:
            return checkpoint.weights
    return None


def _check_environment(run: ChosenRun) -> None:
    """Refuse to train again where the weights would be others."""
    before = run.specification.environment
    assert before is not None
    now = detect_environment(before.device_type)
    if before != now:
        old, new = before.model_dump(), now.model_dump()
        changes = "; ".join(f"{name} {old[name]}, now {new[name]}" for name in old if old[name] != new[name])
        found = f"neither kept nor in the cache, and to be trained again in another environment ({changes})"
        raise UserError(
            f"weights of {run.label}", found, "output.models = best or all, or the environment of the study"
        )


def _train(study: Study, trial: TrialSpec, log: Callable[[str], None]) -> dict[str, Tensor]:
    """Train a run in this process, and before it the run that gives its difficulty scores."""
    specification = trial.specification
    curriculum = specification.curriculum
    if curriculum and curriculum.scorer and (record := read_run_record(study.folder, curriculum.scorer)):
        scorer = type(specification).model_validate(record["config"]["specification"])
        _execute(make_trial(study, scorer, is_scorer=True))
    _execute(trial)
    weights = _find_weights(study, specification, log)
    if weights is None:
        raise MachineError(f"the checkpoint of run {specification.id} is gone; is cache.max_size large enough?")
    return weights


def _execute(trial: TrialSpec) -> None:
    """Precompute what the run of a trial needs, and train it to its end."""
    backend = get_trainable(trial.specification).training_backend
    for _ in backend.precompute(trial, lambda: None):
        pass
    run = backend.start_run(trial, lambda: None)
    try:
        while run.advance() is None:
            pass
    finally:
        run.close()
