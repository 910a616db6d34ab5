"""What the frozen layers make of every text, computed once for a task and model and shared by every run.

A text is a candidate pair, or a sentence. The unit is a part of PER_PART texts, always computed in the same batches, so
the bits of a text never depend on which study asked for it.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch

from trainables.models.packing import PackedBatch
from trainables.models.transformer import Transformer
from trainables.specs.base import BaseModelSettings, Environment
from trainables.specs.plugin import PrecomputeProgress
from trainables.specs.trial import TrialSpec
from trainables.storage.base import Storage
from trainables.storage.leases import Leases
from trainables.training.batching import split_into_micro_batches
from trainables.utils.arrays import Ints
from trainables.utils.checksums import has_checksum, verify_file, write_with_checksum
from trainables.utils.hashing import hash_json

TEXTS_PER_PART = 500
_MAX_OPEN_PARTS = 128
"""Parts mapped at once: each takes a file descriptor, of which a process usually has 1,024."""
_TOKENS_PER_BATCH = 2048
"""Tokens computed at once: activations of a small model then stay in the processor's cache."""


class Texts(Protocol):
    """Token ids, ragged."""

    @property
    def flat(self) -> np.ndarray:
        """(tokens,) ids of all texts one after another."""

    @property
    def offsets(self) -> np.ndarray:
        """(texts + 1,) text r is `flat[offsets[r]:offsets[r + 1]]`."""

    @property
    def lengths(self) -> Ints:
        """(texts,) tokens of each."""

    @property
    def starts(self) -> np.ndarray:
        """(texts,) where the second part of a text begins."""

    @property
    def n_truncated(self) -> int:
        """Texts of which something was cut."""

    def __len__(self) -> int:
        """How many there are."""


class FrozenFeatures(NamedTuple):
    """Ragged outputs of the frozen layers on disk, in parts of PER_PART texts.

    Args:
        folder: of the parts.
        texts: in the order of the parts.
    """

    folder: Path
    texts: Texts

    @property
    def n_parts(self) -> int:
        """How many parts there are."""
        return -(-len(self.texts) // TEXTS_PER_PART)

    def get_part_path(self, part: int) -> Path:
        """Where a part lies: (tokens of its texts, hidden) in float32."""
        return self.folder / f"part-{part:05}.npy"

    def open_part(self, part: int) -> np.ndarray:
        """A part, mapped; DamagedError where it is not as it was written."""
        file = self.get_part_path(part)
        mapped: np.ndarray = np.load(verify_file(file, unit=file), mmap_mode="r")
        return mapped

    def list_missing_parts(self) -> list[int]:
        """Parts not computed yet."""
        return [part for part in range(self.n_parts) if not has_checksum(self.get_part_path(part))]

    def compute_part(self, part: int, model: Transformer) -> None:
        """Computes a part and writes it whole."""
        rows = np.arange(part * TEXTS_PER_PART, min((part + 1) * TEXTS_PER_PART, len(self.texts)))
        outputs = compute_frozen_outputs(self.texts, rows, model)
        with write_with_checksum(self.get_part_path(part)) as temporary, temporary.open("wb") as stream:
            np.save(stream, np.concatenate(outputs))

    def compute_missing(
        self, load_model: Callable[[], Transformer], lease_storage: Storage, on_wait: Callable[[], None]
    ) -> Iterator[PrecomputeProgress]:
        """Computes what is missing, together with whoever else does; ends when nothing is.

        Args:
            frozen: gives the layers, once there is something to compute.
            place: of the claims.
            waited: called again and again while others do the rest.

        Yields:
            After each part that was computed here, how many there are by then.
        """
        claims, model = Leases(lease_storage), None
        while missing := self.list_missing_parts():
            computed = 0
            for part in missing:
                with claims.try_acquire(f"{self.folder.name}-{part}") as claimed:
                    mine = claimed and not has_checksum(self.get_part_path(part))
                    if mine:
                        model = model or load_model()
                        self.compute_part(part, model)
                if mine:
                    computed += 1
                    yield PrecomputeProgress(self.n_parts - len(self.list_missing_parts()), self.n_parts)
            if not computed:
                time.sleep(lease_storage.poll_interval_s)
                on_wait()


class FeatureReader:
    """Batches of features by number of the text."""

    def __init__(self, features: FrozenFeatures) -> None:
        self._features = features
        self._open_part = lru_cache(_MAX_OPEN_PARTS)(features.open_part)

    def read(self, rows: np.ndarray) -> PackedBatch:
        """The texts `rows`; inputs (tokens, hidden)."""
        texts = self._features.texts
        lengths = texts.lengths[rows]
        pieces = []
        for row, length in zip(rows, lengths, strict=True):
            part = int(row) // TEXTS_PER_PART
            start = int(texts.offsets[row] - texts.offsets[part * TEXTS_PER_PART])
            pieces.append(self._open_part(part)[start : start + length])
        return PackedBatch(torch.from_numpy(np.concatenate(pieces)), lengths, texts.starts[rows].astype(np.int64))


class InMemoryFeatures:
    """Texts that are read without what lies on disk: what the frozen layers make of them is computed here and now.

    Args:
        texts: all.
        rows: those that are read.
        model: whose frozen layers; where it has none, any text can be read.
    """

    def __init__(self, texts: Texts, rows: Ints, model: Transformer) -> None:
        self._texts = texts
        self._outputs: dict[int, np.ndarray] | None = None
        if model.lower is not None:
            self._outputs = dict(zip(rows.tolist(), compute_frozen_outputs(texts, rows, model), strict=True))

    @property
    def lengths(self) -> Ints:
        """(texts,) tokens of each."""
        return self._texts.lengths

    def read(self, rows: Ints) -> PackedBatch:
        """The texts `rows`."""
        if self._outputs is None:
            return make_token_batch(self._texts, rows)
        pieces = np.concatenate([self._outputs[row] for row in rows.tolist()])
        return PackedBatch(torch.from_numpy(pieces), self.lengths[rows], self._texts.starts[rows].astype(np.int64))


def compute_frozen_outputs(texts: Texts, rows: np.ndarray, model: Transformer) -> list[np.ndarray]:
    """What the frozen layers make of the texts `rows`: (tokens, hidden) in float32 of each."""
    outputs: list[np.ndarray] = [np.empty(0)] * len(rows)
    for places in split_into_micro_batches(texts.lengths[rows], _TOKENS_PER_BATCH):
        batch = make_token_batch(texts, rows[places])
        output = model.run_frozen_layers(batch).cpu().numpy()
        for place, own in zip(places, np.split(output, np.cumsum(batch.lengths)[:-1]), strict=True):
            outputs[place] = own
    return outputs


def make_token_batch(texts: Texts, rows: np.ndarray) -> PackedBatch:
    """The texts `rows`; inputs (tokens,) ids."""
    own = [texts.flat[texts.offsets[row] : texts.offsets[row + 1]] for row in rows]
    ids = torch.from_numpy(np.concatenate(own).astype(np.int64))
    return PackedBatch(ids, texts.lengths[rows], texts.starts[rows].astype(np.int64))


def get_features_folder(
    cache: Path, fingerprint: str, model: BaseModelSettings, environment: Environment, threads: int
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
    return cache / "features" / hash_json(about)


class EncoderInputs(ABC):
    """The texts of a job as its model takes them: token ids, or what the frozen layers made of them.

    Args:
        job: whose model.
    """

    def __init__(self, trial: TrialSpec) -> None:
        self._trial = trial

    @property
    @abstractmethod
    def texts(self) -> Texts:
        """All of them."""

    @property
    def lengths(self) -> Ints:
        """(texts,) tokens of each."""
        return self.texts.lengths

    @cached_property
    def features(self) -> FrozenFeatures:
        """Outputs of the frozen layers."""
        specification = self._trial.specification
        model, training, environment = specification.model, specification.training, specification.environment
        assert model is not None
        assert training is not None
        assert environment is not None
        folder = get_features_folder(self._trial.cache, specification.data, model, environment, training.threads)
        return FrozenFeatures(folder, self.texts)

    def read(self, rows: Ints) -> PackedBatch:
        """The texts `rows`, in this order."""
        return self._reader.read(rows) if self._reader else make_token_batch(self.texts, rows)

    @cached_property
    def _reader(self) -> FeatureReader | None:
        model = self._trial.specification.model
        return FeatureReader(self.features) if model and model.frozen_layers else None
