"""Models with random weights and a word tokenizer of their own, and pairs of drawn lengths: nothing is downloaded."""

from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from benchmarks.contenders import PairList
from trainables.utils.random import make_generator

ModelType = Literal["bert", "modernbert"]
Size = Literal["tiny", "minilm", "base"]
Lengths = Literal["question pairs", "long-tailed"]
LENGTHS: tuple[Lengths, ...] = get_args(Lengths)
N_WORDS = 2000
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_LOG_NORMAL: dict[Lengths, tuple[float, float]] = {"question pairs": (30, 0.4), "long-tailed": (85, 0.9)}
"""Mean of the tokens of a pair, and standard deviation of their logarithm."""
_TINY = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 64}
_SIZES: dict[tuple[ModelType, Size], dict[str, int]] = {
    ("bert", "tiny"): _TINY | {"vocab_size": N_WORDS + len(_SPECIAL)},
    ("bert", "minilm"): {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
    ("bert", "base"): {},
    ("modernbert", "tiny"): _TINY | {"vocab_size": N_WORDS + len(_SPECIAL)},
    ("modernbert", "base"): {},
}
"""Settings that differ from the defaults of transformers, which are those of the authors' base models."""


def write_model(folder: Path, kind: ModelType, size: Size) -> Path:
    """A model with its tokenizer, in a folder of its own below `folder`; one that is there is kept."""
    path = folder / f"{kind}-{size}"
    if path.is_dir():
        return path
    special = {"pad_token_id": 0, "cls_token_id": 2, "bos_token_id": 2, "sep_token_id": 3, "eos_token_id": 3}
    others: dict[str, Any] = special if kind == "modernbert" else {"pad_token_id": 0}
    torch.manual_seed(0)
    AutoModel.from_config(AutoConfig.for_model(kind, **_SIZES[kind, size], **others)).save_pretrained(path)
    write_tokenizer(path, has_token_types=kind == "bert")
    return path


def write_tokenizer(path: Path, has_token_types: bool) -> None:
    """A tokenizer of the words that `draw_words` draws, with the special tokens of BERT."""
    vocabulary = {word: number for number, word in enumerate([*_SPECIAL, *(f"w{n}" for n in range(N_WORDS))])}
    engine = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    engine.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), _SPECIAL, strict=True))
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if has_token_types else ["input_ids", "attention_mask"]
    PreTrainedTokenizerFast(tokenizer_object=engine, model_input_names=inputs, **names).save_pretrained(path)


def draw_lengths(kind: Lengths, count: int, longest: int = 512) -> np.ndarray:
    """Log-normal lengths of pairs in tokens, cut at `longest`, shape (count,)."""
    mean, spread = _LOG_NORMAL[kind]
    draws = make_generator(1, "benchmark", 0).lognormal(np.log(mean) - spread**2 / 2, spread, count)
    return np.clip(draws.round(), 8, longest).astype(np.int64)


def draw_words(count: int, step: int) -> str:
    """So many words of the tokenizer."""
    return " ".join(f"w{number}" for number in make_generator(1, "benchmark words", step).integers(0, N_WORDS, count))


def make_pairs(path: Path, lengths: np.ndarray) -> PairList:
    """Pairs of these lengths, special tokens included; the query has less than half of the tokens."""
    queries = (lengths - 3) // 2
    texts = [
        (draw_words(query, 2 * row), draw_words(length - 3 - query, 2 * row + 1))
        for row, (query, length) in enumerate(zip(queries.tolist(), lengths.tolist(), strict=True))
    ]
    return PairList(path, texts, max_length=int(lengths.max()))


def compute_teraflops(path: Path, lengths: np.ndarray) -> float:
    """Useful work of training on all pairs: three times the forward pass, matrix products of the layers alone."""
    config = AutoConfig.from_pretrained(path, local_files_only=True)
    with torch.device("meta"):
        model = AutoModel.from_config(config)
    weights = sum(
        module.weight.numel()
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and "layer" in name
    )
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    longest = [config.local_attention if kind == "sliding_attention" else lengths.max() for kind in kinds]
    attended = np.minimum(lengths[:, None], longest).sum(axis=1)  # tokens that a token attends to, over the layers
    return float(np.sum(3 * lengths * (2 * weights + 4 * config.hidden_size * attended))) / 1e12
