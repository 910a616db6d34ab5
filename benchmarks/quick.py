"""Ratios behind the quick study, measured side by side in interleaved rounds: medians, and the spread of the rounds.

python -m benchmarks.quick [ROUNDS]
"""

import sys
from collections.abc import Callable

import numpy as np
import rank_bm25
import torch

from benchmarks.measure import Measure, interleaved, machine, rate, show
from study.config import load
from trainables import environment, weights
from trainables.cross_encoder import CrossEncoder
from trainables.data.negatives import Bm25, tokenise
from trainables.data.prepared import prepare
from trainables.dropout import Dropout
from trainables.features import token_batch
from trainables.job import Job
from trainables.packed import Batch
from trainables.run import Data
from trainables.specification import RunSpecification


def bm25(documents: list[str], queries: list[str]) -> dict[str, Measure]:
    """rank_bm25 itself, and the sparse matrix that gives its scores."""
    texts, asked = [tokenise(text) for text in documents], [tokenise(text) for text in queries]
    reference, ours = rank_bm25.BM25Okapi(texts), Bm25(texts)
    worst = max(float(np.abs(reference.get_scores(query) - ours.scores(query)).max()) for query in asked[:20])
    print(f"BM25 over {len(texts)} documents: largest difference to rank_bm25 {worst:.1e}")
    return {
        "rank_bm25": rate(lambda: [reference.get_scores(query) for query in asked[:20]], 20),
        "sparse matrix": rate(lambda: [ours.scores(query) for query in asked], len(asked)),
    }


def training(job: Job) -> dict[str, Measure]:
    """Forward and backward of one batch: frozen layers computed each time, or taken from their outputs."""
    specification, data = job.specification, Data(job)
    assert specification.model is not None
    assert job.model_path is not None
    model = CrossEncoder(job.model_path, specification.model, seed=1)
    ids = token_batch(data.tokens, np.arange(32))
    ready = ids._replace(inputs=model.frozen_output(ids).clone())

    def step(batch: Batch) -> None:
        dropout = Dropout(0.1, 1)
        torch.nn.functional.cross_entropy(model(batch, dropout), torch.ones(32, dtype=torch.long)).backward()

    def whole() -> None:
        step(ids._replace(inputs=model.frozen_output(ids).clone()))

    def both(work: Callable[[], None]) -> Callable[[], None]:
        return lambda: [work() for _ in range(10)] and None

    return {
        "frozen layers every time": rate(both(whole), 320),
        "frozen layers once": rate(both(lambda: step(ready)), 320),
    }


def main(rounds: int) -> None:
    """Prints everything."""
    study = load("quick")
    torch.set_num_threads(study.training.threads)
    prepared = prepare(study.task, study.cache, print)
    path = weights.folder(study.model.name)
    print(f"{machine()}, {environment.current().instruction_set}, fp32, {rounds} rounds")
    queries = list(prepared.queries()["text"][:200])
    show("BM25", "queries/s", interleaved(bm25(list(prepared.documents()["text"]), queries), rounds))
    specification = RunSpecification(
        task=study.task,
        data=prepared.fingerprint,
        model=study.model.model_copy(update={"name": weights.files_digest(path)}),
        training=environment.resolved(study.training),
        seed=1,
        environment=environment.current(),
    )
    job = Job(specification=specification, metric=study.analysis.metric, cache=study.cache, model_path=path)
    show("training, 32 pairs a batch", "instances/s", interleaved(training(job), rounds))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
