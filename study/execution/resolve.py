"""What a study's names stand for: data, model files, the processors that its trials run on, and how long they train."""

import os
from collections.abc import Callable
from pathlib import Path

from study.config.schema import Study
from study.config.training_length import settled, told
from study.execution.slots import resolved
from study.scheduling.trials import Resolved
from trainables.difficulty.word_vectors import digest_of, of_file
from trainables.models import pretrained as weights
from trainables.specs.plugin import Prepared


def resolve(study: Study, say: Callable[[str], None]) -> tuple[Study, Resolved, Prepared]:
    """The study with its training settings resolved, what its names stand for, and its data, prepared if need be.

    Raises:
        UserError: the task, the model or the word vectors are not what the study says, or its training is too short.
    """
    path = weights.folder(study.model.name)
    weights.check(path, study.model)
    digest = weights.files_digest(path)
    there, training = resolved(study, path, say)
    study = study.model_copy(update={"training": training})
    prepared = study.kind.trainable.data.prepare(study.task, study.cache, say)
    if study.training.epochs is not None:
        say(told(study, prepared))
    vectors = _vectors(study)
    names = study.curriculum.model_copy(update={"vectors": vectors and digest_of(vectors)})
    study = settled(study.model_copy(update={"curriculum": names}), prepared)
    found = Resolved(prepared.fingerprint, digest, path, there, prepared.domains, names.vectors, vectors)
    return study, found, prepared


def _vectors(study: Study) -> Path | None:
    """The file of word vectors, where a score of the study reads one; it is read once, before anything is spent."""
    named, asked = study.curriculum.vectors, study.curriculum.score if study.curriculum.variants else ()
    if not named or "sigma_SM" not in asked:
        return None
    path = Path(os.path.expanduser(named)).absolute()
    of_file(path)(["the"])
    return path
