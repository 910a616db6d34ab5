"""What computing the frozen layers once saves in the quick study, measured side by side in interleaved rounds.

python -m benchmarks.quick [ROUNDS]
"""

import sys
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.measure import Measure, interleaved, machine, rate, show
from study.config.loader import load_study
from trainables.data.ranking_preparation import prepare_data
from trainables.models import pretrained as weights
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.dropout import Dropout
from trainables.models.packing import PackedBatch
from trainables.rankers.runner import RankerData
from trainables.specs import environment
from trainables.specs.ranker import RankerRunSpec
from trainables.specs.trial import TrialSpec
from trainables.training.frozen_features import make_token_batch


def training(job: TrialSpec) -> dict[str, Measure]:
    """Forward and backward of one batch: frozen layers computed each time, or taken from their outputs."""
    specification, data = job.specification, RankerData(job)
    assert specification.model is not None
    assert job.model_path is not None
    model = CrossEncoder(job.model_path, specification.model, seed=1)
    ids = make_token_batch(data.tokens, np.arange(32))
    ready = ids._replace(inputs=model.run_frozen_layers(ids).clone())

    def step(batch: PackedBatch) -> None:
        dropout = Dropout(0.1, 1)
        torch.nn.functional.cross_entropy(model(batch, dropout), torch.ones(32, dtype=torch.long)).backward()

    def whole() -> None:
        step(ids._replace(inputs=model.run_frozen_layers(ids).clone()))

    def both(work: Callable[[], None]) -> Callable[[], None]:
        return lambda: [work() for _ in range(10)] and None

    return {
        "frozen layers every time": rate(both(whole), 320),
        "frozen layers once": rate(both(lambda: step(ready)), 320),
    }


def main(rounds: int) -> None:
    """Prints everything."""
    study = load_study("quick")
    torch.set_num_threads(study.training.threads)
    prepared = prepare_data(study.task, study.cache, print)
    path = weights.resolve_model_path(study.model.name)
    print(f"{machine()}, {environment.detect_environment().instruction_set}, fp32, {rounds} rounds")
    specification = RankerRunSpec(
        task=prepared.settings,
        data=prepared.fingerprint,
        model=study.model.model_copy(update={"name": weights.hash_model_files(path)}),
        training=environment.resolve_precision(study.training),
        seed=1,
        environment=environment.detect_environment(),
    )
    job = TrialSpec(specification=specification, metric=study.analysis.metric, cache=study.cache, model_path=path)
    show("training, 32 pairs a batch", "instances/s", interleaved(training(job), rounds))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
