"""What the frozen layers make of every candidate pair, computed once for a task and model and shared by every run.

The unit is the block of one query's candidates, padded to the longest of them, so the bits of a pair never depend on
which study asked for it.
"""

from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from trainables.cross_encoder import Batch, CrossEncoder
from trainables.data.tokens import Tokens
from trainables.files import whole_file
from trainables.specification import Environment, ModelSettings, digest

QUERIES_PER_PART = 50


class Features(NamedTuple):
    """Ragged outputs of the frozen layers on disk, in parts of QUERIES_PER_PART queries.

    Args:
        folder: of the parts.
        tokens: the pairs.
        candidates: pairs a query.
    """

    folder: Path
    tokens: Tokens
    candidates: int

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return -(-(len(self.tokens.offsets) - 1) // (self.candidates * QUERIES_PER_PART))

    def part_file(self, part: int) -> Path:
        """Where a part lies: (tokens of its pairs, hidden) in float32."""
        return self.folder / f"part-{part:05}.npy"

    def missing(self) -> list[int]:
        """Parts not computed yet."""
        return [part for part in range(self.parts) if not self.part_file(part).is_file()]

    def compute(self, part: int, model: CrossEncoder) -> None:
        """Computes a part and writes it whole."""
        size = self.candidates * QUERIES_PER_PART
        last = min((part + 1) * size, len(self.tokens.offsets) - 1)
        blocks = []
        for first in range(part * size, last, self.candidates):
            block = token_batch(self.tokens, np.arange(first, first + self.candidates), model.padding)
            output = model.frozen_output(block)
            blocks += [row[:length].numpy() for row, length in zip(output, block.lengths, strict=True)]
        with whole_file(self.part_file(part)) as temporary, temporary.open("wb") as stream:
            np.save(stream, np.concatenate(blocks))


class FeatureReader:
    """Batches of features by pair number."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._size = features.candidates * QUERIES_PER_PART

    @cached_property
    def _parts(self) -> list[np.ndarray]:
        files = [self._features.part_file(part) for part in range(self._features.parts)]
        return [np.load(file, mmap_mode="r") for file in files]

    def batch(self, rows: np.ndarray) -> Batch:
        """The pairs `rows`: inputs (pairs, tokens, hidden), zero beyond each pair's length."""
        tokens = self._features.tokens
        lengths = np.diff(tokens.offsets)[rows]
        inputs = np.zeros((len(rows), int(lengths.max()), self._parts[0].shape[1]), dtype=np.float32)
        for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            part = int(row) // self._size
            start = int(tokens.offsets[row] - tokens.offsets[part * self._size])
            inputs[place, :length] = self._parts[part][start : start + length]
        return Batch(torch.from_numpy(inputs), torch.from_numpy(lengths), torch.from_numpy(tokens.starts[rows]))


def token_batch(tokens: Tokens, rows: np.ndarray, padding: int) -> Batch:
    """The pairs `rows` as token ids (pairs, tokens), padded at the end."""
    lengths = np.diff(tokens.offsets)[rows]
    ids = np.full((len(rows), int(lengths.max())), padding, dtype=np.int64)
    for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        ids[place, :length] = tokens.ids[tokens.offsets[row] : tokens.offsets[row] + length]
    return Batch(torch.from_numpy(ids), torch.from_numpy(lengths), torch.from_numpy(tokens.starts[rows]))


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
