"""A tiny random model of every architecture, with a tokenizer, and the forward pass of transformers as the oracle."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import processors
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoTokenizer

from tests.trainables.small import padded, write_word_tokenizer
from trainables.models.architectures import ARCHITECTURES
from trainables.models.packing import PackedBatch
from trainables.models.transformer import load_pretrained

LONGEST, LAYERS, WORDS = 160, 4, 200
_COMMON = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": LAYERS,
    "intermediate_size": 48,
    "max_position_embeddings": LONGEST + 2,  # RoBERTa's kind has two positions that no token uses
    "pad_token_id": 1,
    # A tenth of it would make all attention weights nearly equal.
    "initializer_range": 0.2,
}
_DISTILBERT = {"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"}
_OWN: dict[str, dict[str, Any]] = {
    "electra": {"embedding_size": 16},
    "distilbert": {"hidden_dim": 48},
    "albert": {"embedding_size": 16, "num_hidden_groups": 2},
    "modernbert": {"local_attention": 16, "global_attn_every_n_layers": 3, "intermediate_size": 40},
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_buckets": 16,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "position_biased_input": False,
        "conv_kernel_size": 3,
    },
    "deberta": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False},
}
TYPES = list(ARCHITECTURES)
SEPARATE = [kind for kind in TYPES if not ARCHITECTURES[kind].shares_layers]
"""Types with layers that share no weights."""


def write_model(place: Path, kind: str, texts: list[str] | None = None, **settings: Any) -> Path:
    """A random model of this type with a tokenizer that knows the words of `texts`.

    Args:
        place: a folder.
        kind: type.
        texts: if None, the words are numbers.
        settings: other settings of the model.
    """
    words = sorted({word for text in texts or map(str, range(WORDS - 4)) for word in text.split()})
    write_word_tokenizer(place, words)
    common = {_DISTILBERT.get(key, key) if kind == "distilbert" else key: value for key, value in _COMMON.items()}
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **common | _OWN.get(kind, {}) | {"vocab_size": 4 + len(words)} | settings)
    AutoModel.from_config(config).save_pretrained(place)
    return place


def name_token_types(path: Path) -> None:
    """Let the tokenizer of a model with token types give the document those of type 1, as that of BERT does."""
    if getattr(AutoConfig.from_pretrained(path), "type_vocab_size", 0) < 2:
        return
    names = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer = AutoTokenizer.from_pretrained(path, model_input_names=names)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.save_pretrained(path)


def make_batch(lengths: list[int], seed: int = 0) -> PackedBatch:
    """Pairs of words that every model knows; the document begins in the middle."""
    ids = np.random.default_rng(seed).integers(4, WORDS, sum(lengths))
    return PackedBatch(torch.from_numpy(ids), np.array(lengths), np.maximum(np.array(lengths) // 2, 1))


def load_oracle(path: Path, **settings: Any) -> Any:
    """The model as transformers itself loads and runs it, in evaluation mode."""
    return AutoModel.from_pretrained(path, attn_implementation="eager", **settings).eval()


def run_oracle(oracle: Any, batch: PackedBatch, layers: int = LAYERS) -> list[Tensor]:
    """The hidden states of each pair after some layers, by the forward pass of transformers over padded pairs."""
    inputs = padded(batch)
    types = max(1, getattr(oracle.config, "type_vocab_size", 0))
    inputs["token_type_ids"] = inputs["token_type_ids"].clamp(max=types - 1)
    if not hasattr(oracle.config, "type_vocab_size"):
        del inputs["token_type_ids"]
    inputs["input_ids"][inputs["attention_mask"] == 0] = oracle.config.pad_token_id
    output = oracle(**inputs, output_hidden_states=True)
    hidden = output.last_hidden_state
    if layers < LAYERS:
        hidden = output.hidden_states[layers]
        hidden = oracle.final_norm(hidden) if hasattr(oracle, "final_norm") else hidden
    return [row[:length] for row, length in zip(hidden, batch.lengths.tolist(), strict=True)]


def name_weights(path: Path, seed: int = 1) -> tuple[Any, dict[str, Tensor]]:
    """The model as this project loads it, and its parameters under the names of transformers."""
    base = load_pretrained(path, seed)
    return base, dict(base.named_parameters())
