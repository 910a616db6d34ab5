"""Ratios behind the quick study, measured side by side in interleaved rounds: medians, and the spread of the rounds.

python -m benchmarks.quick [ROUNDS]
"""

import platform
import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import rank_bm25
import torch

from study.config import load
from trainables import environment, weights
from trainables.cross_encoder import Batch, CrossEncoder
from trainables.data.negatives import Bm25, tokenise
from trainables.data.prepared import prepare
from trainables.job import Job
from trainables.run import Data
from trainables.specification import RunSpecification

Measure = Callable[[], float]
"""Does some work once; returns units a second."""


def interleaved(measures: dict[str, Measure], rounds: int) -> dict[str, list[float]]:
    """Each round runs every measure once, so that a noisy minute hits all of them."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            found[name].append(measure())
    return found


def show(title: str, unit: str, found: dict[str, list[float]]) -> None:
    """One line a measure; ratios are to the first, by round."""
    print(title)
    first = next(iter(found.values()))
    for name, rates in found.items():
        ratios = [rate / base for rate, base in zip(rates, first, strict=True)]
        spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
        print(f"  {name:34} {median(rates):9.1f} {unit}   ratio {median(ratios):6.2f} ({spread})")


def rate(work: Callable[[], object], units: int) -> Measure:
    """Units of `work` a second."""

    def measure() -> float:
        started = time.perf_counter()
        work()
        return units / (time.perf_counter() - started)

    return measure


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
    model = CrossEncoder(job.model_path, specification.model, dropout=0.1, seed=1)
    rows = np.arange(32)
    from trainables.features import token_batch

    ids = token_batch(data.tokens, rows, model.padding)
    ready = Batch(model.frozen_output(ids).clone(), ids.lengths, ids.starts)

    def step(batch: Batch) -> None:
        model.train()
        torch.nn.functional.cross_entropy(model(batch), torch.ones(32, dtype=torch.long)).backward()

    def whole() -> None:
        step(Batch(model.frozen_output(ids).clone(), ids.lengths, ids.starts))

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
    print(f"{platform.machine()}, {environment.current().instruction_set}, torch {torch.__version__}, 1 thread")
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
