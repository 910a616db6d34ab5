"""What runs share before any of them trains: the data's tokens, what the frozen layers make of them, and difficulties.

Whoever needs it first begins with it, and who comes meanwhile helps: of the parts that are missing each process takes
one that nobody else is at, until all are there.
"""

from collections.abc import Callable, Iterator

from trainables.difficulty import cache as kept
from trainables.models.cross_encoder import CrossEncoder
from trainables.rankers.runner import Data, vocabulary
from trainables.specs.job import Job
from trainables.specs.plugin import Parts
from trainables.specs.ranker import ranking
from trainables.storage import open_storage
from trainables.storage.locks import Claims
from trainables.training.runner import fix_arithmetic
from trainables.utils.checksums import intact


def groundwork(job: Job, waited: Callable[[], None] = lambda: None) -> Iterator[Parts]:
    """Does this process's share of it, until nothing is missing.

    Args:
        job: any run that needs it.
        waited: called again and again while others do the rest.

    Yields:
        After each part that was computed here, how many there are by then.
    """
    data, place = Data(job), open_storage(str(job.cache / "claims"))
    claims = Claims(place)
    claims.once(data.tokens_folder.name, lambda: intact(data.tokens_folder), lambda: data.tokens, waited)
    assert job.specification.model is not None
    if job.specification.model.frozen_layers:
        yield from data.features.completed(lambda: _frozen(job), place, waited)
    if job.action == "train":
        kept.ensure(job, data.prepared, waited)


def _frozen(job: Job) -> CrossEncoder:
    """The layers themselves, which are the same for every seed."""
    specification = ranking(job.specification)
    assert specification.model is not None
    assert specification.training is not None
    assert specification.environment is not None
    assert job.model_path is not None
    fix_arithmetic(specification.training.threads)
    model = CrossEncoder(job.model_path, specification.model, seed=0, vocabulary=vocabulary(job))
    return model.to(specification.environment.kind)
