"""Models with random weights and a word tokenizer of their own, and pairs of drawn lengths: nothing is downloaded."""

from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from benchmarks.contenders import PairList
from trainables.utils.random import make_generator

Size = Literal["tiny", "minilm", "base"]
Lengths = Literal["question pairs", "long-tailed"]
LENGTHS: tuple[Lengths, ...] = get_args(Lengths)
N_WORDS = 2000
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_LOG_NORMAL: dict[Lengths, tuple[float, float]] = {"question pairs": (30, 0.4), "long-tailed": (85, 0.9)}
"""Mean of the tokens of a pair, and standard deviation of their logarithm."""
_SIZES: dict[Size, dict[str, int]] = {
    "tiny": {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "vocab_size": N_WORDS + len(_SPECIAL),
    },
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "base": {},
}
"""Settings that differ from the defaults of transformers, which are those of BERT-base."""


def write_model(folder: Path, size: Size, layers: int | None = None) -> Path:
    """A BERT with its tokenizer, in a folder of its own below `folder`; one that is there is kept.

    `layers` is another number of layers than that of the size.
    """
    path = folder / f"{size}-{layers}"
    if path.is_dir():
        return path
    torch.manual_seed(0)
    settings = _SIZES[size] | ({"num_hidden_layers": layers} if layers else {})
    BertModel(BertConfig(pad_token_id=0, **settings)).save_pretrained(path)
    vocabulary = {word: number for number, word in enumerate([*_SPECIAL, *(f"w{n}" for n in range(N_WORDS))])}
    engine = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    engine.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), _SPECIAL, strict=True))
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    PreTrainedTokenizerFast(tokenizer_object=engine, model_input_names=inputs, **names).save_pretrained(path)
    return path


def draw_lengths(kind: Lengths, count: int, longest: int = 512) -> np.ndarray:
    """Log-normal lengths of pairs in tokens, cut at `longest`, shape (count,)."""
    mean, spread = _LOG_NORMAL[kind]
    draws = make_generator(1, "benchmark", 0).lognormal(np.log(mean) - spread**2 / 2, spread, count)
    return np.clip(draws.round(), 8, longest).astype(np.int64)


def draw_words(count: int, step: int) -> str:
    """So many words of the tokenizer."""
    return " ".join(f"w{number}" for number in make_generator(1, "benchmark words", step).integers(0, N_WORDS, count))


def make_pairs(path: Path, lengths: np.ndarray, first: int = 0) -> PairList:
    """Pairs of these lengths, special tokens included; the query has less than half of the tokens.

    `first` is the number of the first draw of words.
    """
    queries = (lengths - 3) // 2
    texts = [
        (draw_words(query, 2 * row), draw_words(length - 3 - query, 2 * row + 1))
        for row, (query, length) in enumerate(zip(queries.tolist(), lengths.tolist(), strict=True), first)
    ]
    return PairList(path, texts, max_length=int(lengths.max()))


def compute_teraflops(path: Path, lengths: np.ndarray) -> float:
    """Useful work of training on all pairs: three times the forward pass, matrix products of the layers alone."""
    config = BertConfig.from_pretrained(path, local_files_only=True)
    hidden, tokens = config.hidden_size, lengths.astype(float)
    weights = config.num_hidden_layers * (4 * hidden**2 + 2 * hidden * config.intermediate_size)
    per_pair = 2 * tokens * weights + 4 * tokens**2 * hidden * config.num_hidden_layers
    return float(3 * per_pair.sum()) / 1e12
