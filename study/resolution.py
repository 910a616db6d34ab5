"""What a study's names stand for: data, model files, and the processors that its trials run on."""

from collections.abc import Callable

from study.configuration import Resolved
from study.places import resolved
from study.settings import Study
from trainables import weights
from trainables.data.prepared import Prepared, prepare


def resolve(study: Study, say: Callable[[str], None]) -> tuple[Study, Resolved, Prepared]:
    """The study with its training settings resolved, what its names stand for, and its data, prepared if need be.

    Raises:
        UserError: the task or the model is not what the study says.
    """
    path = weights.folder(study.model.name)
    weights.check(path, study.model)
    digest = weights.files_digest(path)
    there, training = resolved(study, path, say)
    study = study.model_copy(update={"training": training})
    prepared = prepare(study.task, study.cache, say)
    return study, Resolved(prepared.fingerprint, digest, path, there), prepared
