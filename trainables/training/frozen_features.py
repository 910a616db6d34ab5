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

from trainables.models.packing import Batch
from trainables.models.transformer import Transformer
from trainables.specs.base import CommonModel, Environment
from trainables.specs.job import Job
from trainables.specs.plugin import Parts
from trainables.storage.base import Storage
from trainables.storage.locks import Claims
from trainables.training.batching import micro_batches
from trainables.utils.arrays import Ints
from trainables.utils.checksums import checked_file, present, verified
from trainables.utils.hashing import digest

PER_PART = 500
_OPEN_PARTS = 128
"""Parts mapped at once: each takes a file descriptor, of which a process usually has 1,024."""
_TOKENS = 2048
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
    def truncated(self) -> int:
        """Texts of which something was cut."""

    def __len__(self) -> int:
        """How many there are."""


class Features(NamedTuple):
    """Ragged outputs of the frozen layers on disk, in parts of PER_PART texts.

    Args:
        folder: of the parts.
        texts: in the order of the parts.
    """

    folder: Path
    texts: Texts

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return -(-len(self.texts) // PER_PART)

    def part_file(self, part: int) -> Path:
        """Where a part lies: (tokens of its texts, hidden) in float32."""
        return self.folder / f"part-{part:05}.npy"

    def opened(self, part: int) -> np.ndarray:
        """A part, mapped; DamagedError where it is not as it was written."""
        file = self.part_file(part)
        mapped: np.ndarray = np.load(verified(file, unit=file), mmap_mode="r")
        return mapped

    def missing(self) -> list[int]:
        """Parts not computed yet."""
        return [part for part in range(self.parts) if not present(self.part_file(part))]

    def compute(self, part: int, model: Transformer) -> None:
        """Computes a part and writes it whole."""
        rows = np.arange(part * PER_PART, min((part + 1) * PER_PART, len(self.texts)))
        outputs = frozen_outputs(self.texts, rows, model)
        with checked_file(self.part_file(part)) as temporary, temporary.open("wb") as stream:
            np.save(stream, np.concatenate(outputs))

    def completed(
        self, frozen: Callable[[], Transformer], place: Storage, waited: Callable[[], None]
    ) -> Iterator[Parts]:
        """Computes what is missing, together with whoever else does; ends when nothing is.

        Args:
            frozen: gives the layers, once there is something to compute.
            place: of the claims.
            waited: called again and again while others do the rest.

        Yields:
            After each part that was computed here, how many there are by then.
        """
        claims, model = Claims(place), None
        while missing := self.missing():
            computed = 0
            for part in missing:
                with claims.attempt(f"{self.folder.name}-{part}") as claimed:
                    mine = claimed and not present(self.part_file(part))
                    if mine:
                        model = model or frozen()
                        self.compute(part, model)
                if mine:
                    computed += 1
                    yield Parts(self.parts - len(self.missing()), self.parts)
            if not computed:
                time.sleep(place.patience)
                waited()


class FeatureReader:
    """Batches of features by number of the text."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._part = lru_cache(_OPEN_PARTS)(features.opened)

    def batch(self, rows: np.ndarray) -> Batch:
        """The texts `rows`; inputs (tokens, hidden)."""
        texts = self._features.texts
        lengths = texts.lengths[rows]
        pieces = []
        for row, length in zip(rows, lengths, strict=True):
            part = int(row) // PER_PART
            start = int(texts.offsets[row] - texts.offsets[part * PER_PART])
            pieces.append(self._part(part)[start : start + length])
        return Batch(torch.from_numpy(np.concatenate(pieces)), lengths, texts.starts[rows].astype(np.int64))


class FewTexts:
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
            self._outputs = dict(zip(rows.tolist(), frozen_outputs(texts, rows, model), strict=True))

    @property
    def lengths(self) -> Ints:
        """(texts,) tokens of each."""
        return self._texts.lengths

    def read(self, rows: Ints) -> Batch:
        """The texts `rows`."""
        if self._outputs is None:
            return token_batch(self._texts, rows)
        pieces = np.concatenate([self._outputs[row] for row in rows.tolist()])
        return Batch(torch.from_numpy(pieces), self.lengths[rows], self._texts.starts[rows].astype(np.int64))


def frozen_outputs(texts: Texts, rows: np.ndarray, model: Transformer) -> list[np.ndarray]:
    """What the frozen layers make of the texts `rows`: (tokens, hidden) in float32 of each."""
    outputs: list[np.ndarray] = [np.empty(0)] * len(rows)
    for places in micro_batches(texts.lengths[rows], _TOKENS):
        batch = token_batch(texts, rows[places])
        output = model.frozen_output(batch).cpu().numpy()
        for place, own in zip(places, np.split(output, np.cumsum(batch.lengths)[:-1]), strict=True):
            outputs[place] = own
    return outputs


def token_batch(texts: Texts, rows: np.ndarray) -> Batch:
    """The texts `rows`; inputs (tokens,) ids."""
    own = [texts.flat[texts.offsets[row] : texts.offsets[row + 1]] for row in rows]
    ids = torch.from_numpy(np.concatenate(own).astype(np.int64))
    return Batch(ids, texts.lengths[rows], texts.starts[rows].astype(np.int64))


def features_folder(cache: Path, fingerprint: str, model: CommonModel, environment: Environment, threads: int) -> Path:
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


class ModelInputs(ABC):
    """The texts of a job as its model takes them: token ids, or what the frozen layers made of them.

    Args:
        job: whose model.
    """

    def __init__(self, job: Job) -> None:
        self._job = job

    @property
    @abstractmethod
    def texts(self) -> Texts:
        """All of them."""

    @property
    def lengths(self) -> Ints:
        """(texts,) tokens of each."""
        return self.texts.lengths

    @cached_property
    def features(self) -> Features:
        """Outputs of the frozen layers."""
        specification = self._job.specification
        model, training, environment = specification.model, specification.training, specification.environment
        assert model is not None
        assert training is not None
        assert environment is not None
        folder = features_folder(self._job.cache, specification.data, model, environment, training.threads)
        return Features(folder, self.texts)

    def read(self, rows: Ints) -> Batch:
        """The texts `rows`, in this order."""
        return self._reader.batch(rows) if self._reader else token_batch(self.texts, rows)

    @cached_property
    def _reader(self) -> FeatureReader | None:
        model = self._job.specification.model
        return FeatureReader(self.features) if model and model.frozen_layers else None
