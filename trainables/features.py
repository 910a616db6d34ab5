"""What the frozen layers make of every candidate pair, computed once for a task and model and shared by every run.

The unit is a part of PAIRS_PER_PART pairs, always computed in the same batches, so the bits of a pair never depend on
which study asked for it.
"""

from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from trainables.batches import micro_batches
from trainables.cross_encoder import CrossEncoder
from trainables.data.tokens import Tokens
from trainables.files import whole_file
from trainables.packed import Batch
from trainables.specification import Environment, ModelSettings, digest

PAIRS_PER_PART = 500
_TOKENS = 2048
"""Tokens computed at once: activations of a small model then stay in the processor's cache."""


class Features(NamedTuple):
    """Ragged outputs of the frozen layers on disk, in parts of PAIRS_PER_PART pairs.

    Args:
        folder: of the parts.
        tokens: the pairs.
    """

    folder: Path
    tokens: Tokens

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return -(-len(self.tokens) // PAIRS_PER_PART)

    def part_file(self, part: int) -> Path:
        """Where a part lies: (tokens of its pairs, hidden) in float32."""
        return self.folder / f"part-{part:05}.npy"

    def missing(self) -> list[int]:
        """Parts not computed yet."""
        return [part for part in range(self.parts) if not self.part_file(part).is_file()]

    def compute(self, part: int, model: CrossEncoder) -> None:
        """Computes a part and writes it whole."""
        rows = np.arange(part * PAIRS_PER_PART, min((part + 1) * PAIRS_PER_PART, len(self.tokens)))
        pairs = frozen_pairs(self.tokens, rows, model)
        with whole_file(self.part_file(part)) as temporary, temporary.open("wb") as stream:
            np.save(stream, np.concatenate(pairs))


class FeatureReader:
    """Batches of features by pair number."""

    def __init__(self, features: Features) -> None:
        self._features = features

    @cached_property
    def _parts(self) -> list[np.ndarray]:
        files = [self._features.part_file(part) for part in range(self._features.parts)]
        return [np.load(file, mmap_mode="r") for file in files]

    def batch(self, rows: np.ndarray) -> Batch:
        """The pairs `rows`; inputs (tokens, hidden)."""
        tokens = self._features.tokens
        lengths = tokens.lengths[rows]
        pieces = []
        for row, length in zip(rows, lengths, strict=True):
            part = int(row) // PAIRS_PER_PART
            start = int(tokens.offsets[row] - tokens.offsets[part * PAIRS_PER_PART])
            pieces.append(self._parts[part][start : start + length])
        return Batch(torch.from_numpy(np.concatenate(pieces)), lengths, tokens.starts[rows].astype(np.int64))


def frozen_pairs(tokens: Tokens, rows: np.ndarray, model: CrossEncoder) -> list[np.ndarray]:
    """What the frozen layers make of the pairs `rows`: (tokens, hidden) in float32 of each."""
    pairs: list[np.ndarray] = [np.empty(0)] * len(rows)
    for places in micro_batches(tokens.lengths[rows], _TOKENS):
        batch = token_batch(tokens, rows[places])
        output = model.frozen_output(batch).cpu().numpy()
        for place, pair in zip(places, np.split(output, np.cumsum(batch.lengths)[:-1]), strict=True):
            pairs[place] = pair
    return pairs


def token_batch(tokens: Tokens, rows: np.ndarray) -> Batch:
    """The pairs `rows`; inputs (tokens,) ids."""
    ids = np.concatenate([tokens.pair(row)[0] for row in rows]).astype(np.int64)
    return Batch(torch.from_numpy(ids), tokens.lengths[rows], tokens.starts[rows].astype(np.int64))


def features_folder(
    cache: Path, fingerprint: str, model: ModelSettings, environment: Environment, threads: int
) -> Path:
    """Where the features of this data under this model lie; everything their bits depend on is in the name."""
    about = [
        fingerprint,
        model.name,
        model.max_length,
        model.frozen_layers,
        environment.model_dump(mode="json"),
        threads,
    ]
    return cache / "features" / digest(about)
