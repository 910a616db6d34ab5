"""Outputs of the frozen layers for every text, shared by all runs.

They are computed once for a task and model. A text is a candidate pair or a sentence. The unit is a part of
`TEXTS_PER_PART` texts, always computed in the same batches, so the bits of a text never depend on the study that needs
it. If all texts together exceed `MAX_STORED_BYTES`, the first ones are stored, and the others are computed each time
they are read, equal up to rounding. Which ones are stored depends on the task and the model alone.
"""

import math
import os
import secrets
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig

from trainables.models.packing import PackedBatch
from trainables.models.transformer import Transformer
from trainables.specs.environment import TOKENS_AT_ONCE, check_environment
from trainables.specs.plugin import PrecomputeProgress
from trainables.specs.trial import TrialSpec
from trainables.storage import open_storage
from trainables.storage.base import Storage
from trainables.storage.leases import Leases
from trainables.text.tokens import TokenizedTexts
from trainables.training.batching import split_into_micro_batches
from trainables.training.process import prepare_process
from trainables.utils.arrays import Ints
from trainables.utils.base_settings import require
from trainables.utils.checksums import has_checksum, is_intact, verify_file, write_with_checksum
from trainables.utils.hashing import hash_json
from trainables.utils.system import get_machine_id

TEXTS_PER_PART = 500
"""Texts per part; the last part may have fewer."""
MAX_STORED_BYTES = 16 * 10**9
"""Bytes on disk that the outputs for one task and model take at most.

These are 10.4 million tokens at a hidden size of 384, and 5.2 million at 768. The digits of runs with more tokens
depend on this number, in the order of rounding.
"""
_MAX_TRIES = 10
"""Parts in a row that others compute, after which a process waits."""


class FrozenFeatures:
    """Outputs of the frozen layers on disk, in parts of `TEXTS_PER_PART` texts.

    Args:
        folder: folder of the parts.
        texts: texts in the order of the parts.
        n_stored: number of texts, the first ones, that the parts are of.
    """

    def __init__(self, folder: Path, texts: TokenizedTexts, n_stored: int) -> None:
        self.folder, self.texts, self.n_stored = folder, texts, n_stored
        self.n_parts = -(-n_stored // TEXTS_PER_PART)
        self._open_part = cache(_open_part)  # no method: a cycle would keep the parts mapped

    def get_part_path(self, part: int) -> Path:
        """Return the path of a part, a float32 array of shape (tokens of its texts, hidden)."""
        return self.folder / f"part-{part:05}.npy"

    def read(self, rows: np.ndarray) -> PackedBatch:
        """Return a batch of the texts `rows`, with inputs of shape (tokens, hidden). Their parts must exist.

        Raises:
            DamagedError: if a part differs from what was written.
        """
        lengths, pieces = self.texts.lengths[rows], []
        for row, length in zip(rows, lengths, strict=True):
            part = int(row) // TEXTS_PER_PART
            start = int(self.texts.offsets[row] - self.texts.offsets[part * TEXTS_PER_PART])
            pieces.append(self._open_part(self.get_part_path(part))[start : start + length])
        return _make_batch(self.texts, rows, np.concatenate(pieces))

    def list_missing_parts(self) -> list[int]:
        """Return the numbers of the parts that are not computed yet."""
        return [part for part in range(self.n_parts) if self._is_missing(part)]

    def _is_missing(self, part: int) -> bool:
        return not has_checksum(self.get_part_path(part))

    def compute_part(self, part: int, model: Transformer) -> None:
        """Compute a part and write it as a whole."""
        rows = np.arange(part * TEXTS_PER_PART, min((part + 1) * TEXTS_PER_PART, self.n_stored))
        outputs = compute_frozen_outputs(self.texts, rows, model)
        with write_with_checksum(self.get_part_path(part)) as temporary, temporary.open("wb") as stream:
            np.save(stream, np.concatenate(outputs))

    def compute_missing(
        self, load_model: Callable[[], Transformer], lease_storage: Storage, on_wait: Callable[[], None], on_gpu: bool
    ) -> Iterator[PrecomputeProgress]:
        """Compute the missing parts together with other processes, until none is missing.

        Each process begins at a random part. After some that others compute it waits, longer each time. Processes that
        share a GPU leave the parts to one of them.

        Args:
            load_model: returns the model with the frozen layers; called only if there is a part to compute.
            lease_storage: storage of the leases, one lease per part.
            on_wait: called repeatedly while other processes compute the remaining parts.
            on_gpu: True if the model is on a GPU; processes on processors have cores of their own.

        Yields:
            Progress after each part that this process computes.
        """
        leases, missing, model = Leases(lease_storage), deque(self.list_missing_parts()), None
        missing.rotate(secrets.randbelow(max(1, len(missing))))
        waits = leases.iterate_waits()
        while missing:
            with _acquire_gpu(leases, self.folder.name) if on_gpu else nullcontext(True) as is_free:
                n_tries = min(_MAX_TRIES, len(missing)) if is_free else 0
                while missing and n_tries:
                    part, is_mine = missing.popleft(), False
                    if self._is_missing(part):
                        with leases.try_acquire(f"{self.folder.name}-{part}") as acquired:
                            is_mine = acquired and self._is_missing(part)
                            if is_mine:
                                model = model or load_model()
                                self.compute_part(part, model)
                        if not acquired:
                            missing.append(part)
                            n_tries -= 1
                    if is_mine:
                        n_tries = min(_MAX_TRIES, len(missing))
                        yield PrecomputeProgress(self.n_parts - len(self.list_missing_parts()), self.n_parts)
            if missing:
                time.sleep(next(waits))
                on_wait()
                self._drop_computed(missing)

    def _drop_computed(self, missing: deque[int]) -> None:
        """Remove computed parts from the beginning of the missing ones, up to the first one that is still missing."""
        while missing and not self._is_missing(missing[0]):
            missing.popleft()


def _acquire_gpu(leases: Leases, name: str) -> AbstractContextManager[bool]:
    """Hold the lease of this process's GPU, without waiting for it."""
    return leases.try_acquire(f"{name}-{get_machine_id()}-gpu-{os.environ.get('CUDA_VISIBLE_DEVICES')}")


def _open_part(file: Path) -> np.ndarray:
    """Check and map a part. A mapping by torch, unlike one by NumPy, keeps no file descriptor, so all can stay."""
    with verify_file(file, unit=file).open("rb") as stream:
        np.lib.format.read_magic(stream)
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        start = stream.tell() // dtype.itemsize
    values = torch.from_file(str(file), size=start + math.prod(shape), dtype=torch.float32)
    return values[start:].view(shape).numpy()


def _make_batch(texts: TokenizedTexts, rows: np.ndarray, inputs: np.ndarray | torch.Tensor) -> PackedBatch:
    return PackedBatch(torch.as_tensor(inputs), texts.lengths[rows], texts.starts[rows].astype(np.int64))


class InMemoryFeatures:
    """Outputs of the frozen layers that are computed at once and kept in memory instead of on disk.

    Args:
        texts: all texts.
        rows: numbers of the texts that will be read.
        model: model with the frozen layers. If it has none, every text can be read.
    """

    def __init__(self, texts: TokenizedTexts, rows: Ints, model: Transformer) -> None:
        self._texts = texts
        self._outputs: dict[int, np.ndarray] | None = None
        if model.lower is not None:
            self._outputs = dict(zip(rows.tolist(), compute_frozen_outputs(texts, rows, model), strict=True))

    @property
    def lengths(self) -> Ints:
        """Tokens of each text, shape (texts,)."""
        return self._texts.lengths

    def read(self, rows: Ints) -> PackedBatch:
        """Return a batch of the texts `rows`."""
        if self._outputs is None:
            return make_token_batch(self._texts, rows)
        return _make_batch(self._texts, rows, np.concatenate([self._outputs[row] for row in rows.tolist()]))


def compute_frozen_outputs(texts: TokenizedTexts, rows: np.ndarray, model: Transformer) -> list[np.ndarray]:
    """Return the outputs of the frozen layers for the texts `rows`, float32 of shape (tokens, hidden) for each."""
    outputs: list[np.ndarray] = [np.empty(0)] * len(rows)
    device = next(model.parameters()).device.type
    for places in split_into_micro_batches(texts.lengths[rows], TOKENS_AT_ONCE[device]):
        batch = make_token_batch(texts, rows[places])
        output = model.run_frozen_layers(batch).cpu().numpy()
        for place, part in zip(places, np.split(output, np.cumsum(batch.lengths)[:-1]), strict=True):
            outputs[place] = part
    return outputs


def count_texts_within(max_bytes: int, offsets: np.ndarray, hidden_size: int) -> int:
    """Return how many texts, the first ones, have outputs that together fit into some bytes.

    They are all texts or whole parts, so that the batches in which a text is computed do not depend on the limit.

    Args:
        max_bytes: bytes of the outputs.
        offsets: offsets of the tokens, shape (texts + 1,).
        hidden_size: float32 numbers per token.

    Example:
        >>> import numpy as np
        >>> offsets = np.arange(1201) * 10  # 1,200 texts of 10 tokens
        >>> [count_texts_within(texts * 10 * 4 * 8, offsets, hidden_size=8) for texts in (499, 1199, 1200)]
        [0, 1000, 1200]
    """
    max_tokens = max_bytes // (np.dtype(np.float32).itemsize * hidden_size)
    n_texts = int(np.searchsorted(offsets, max_tokens, side="right")) - 1
    return n_texts if n_texts == len(offsets) - 1 else n_texts // TEXTS_PER_PART * TEXTS_PER_PART


def make_token_batch(texts: TokenizedTexts, rows: np.ndarray) -> PackedBatch:
    """Return a batch of the texts `rows`, with token ids of shape (tokens,) as inputs."""
    return _make_batch(texts, rows, np.concatenate([texts.get_ids(row) for row in rows]).astype(np.int64))


class EncoderInputs(ABC):
    """Inputs of a trial's model: token ids, or outputs of the frozen layers if there are any.

    Args:
        trial: the trial.
    """

    def __init__(self, trial: TrialSpec) -> None:
        self._trial = trial

    @property
    def _fingerprint(self) -> str:
        """Fingerprint of the data."""
        return self._trial.specification.data

    @property
    @abstractmethod
    def tokens(self) -> TokenizedTexts:
        """Token ids of all texts; they are made if they do not exist."""

    @property
    @abstractmethod
    def tokens_folder(self) -> Path:
        """Folder of the token ids, which may not exist yet."""

    @abstractmethod
    def load_model(self, seed: int) -> Transformer:
        """Return the model before training, on its device; frozen layers are the same for every seed."""

    @property
    def lengths(self) -> Ints:
        """Tokens of each text, shape (texts,)."""
        return self.tokens.lengths

    def tokenize_once(self, on_wait: Callable[[], None]) -> None:
        """Compute the token ids if they are missing, in one process; others call `on_wait` repeatedly."""
        folder = self.tokens_folder
        Leases(self._lease_storage).run_once(folder.name, lambda: is_intact(folder), lambda: self.tokens, on_wait)

    def precompute(self, on_wait: Callable[[], None]) -> Iterator[PrecomputeProgress]:
        """Compute the missing token ids, and together with other processes the missing outputs of the frozen layers.

        Yields:
            Progress after each part that this process computes.
        """
        self.tokenize_once(on_wait)
        model, training = self._trial.specification.model, self._trial.specification.training
        if model and training and model.frozen_layers:
            environment = require(self._trial.specification.environment)
            check_environment(environment)
            prepare_process(training.threads)
            yield from self.features.compute_missing(
                lambda: self.load_model(seed=0), self._lease_storage, on_wait, environment.device_type == "cuda"
            )

    @cached_property
    def features(self) -> FrozenFeatures:
        """Outputs of the frozen layers on disk; the folder's name covers everything that their bits depend on."""
        specification, model = self._trial.specification, require(self._trial.specification.model)
        settings = [model.name, model.max_length, model.frozen_layers]
        environment = require(specification.environment).model_dump(mode="json")
        identity = [self._fingerprint, *settings, environment, require(specification.training).threads]
        folder = self._trial.cache / "features" / hash_json(identity)
        return FrozenFeatures(folder, self.tokens, self._count_stored())

    def _count_stored(self) -> int:
        """Return the number of texts, the first ones, with stored outputs of the frozen layers."""
        config = AutoConfig.from_pretrained(require(self._trial.model_path), local_files_only=True)
        return count_texts_within(MAX_STORED_BYTES, self.tokens.offsets, config.hidden_size)

    def read(self, rows: Ints) -> PackedBatch:
        """Return a batch of the texts `rows`, in this order.

        Those of them that are not stored are computed together.
        """
        model = self._trial.specification.model
        if not (model and model.frozen_layers):
            return make_token_batch(self.tokens, rows)
        is_stored = rows < self.features.n_stored
        if is_stored.all():
            return self.features.read(rows)
        computed = self._compute(rows[~is_stored])
        if not is_stored.any():
            return computed
        stored = self.features.read(rows[is_stored])
        is_stored_token = torch.from_numpy(np.repeat(is_stored, self.lengths[rows]))
        inputs = torch.empty(len(is_stored_token), stored.inputs.shape[1])
        inputs[is_stored_token], inputs[~is_stored_token] = stored.inputs, computed.inputs
        return _make_batch(self.tokens, rows, inputs)

    def _compute(self, rows: Ints) -> PackedBatch:
        """Return a batch of texts without stored outputs of the frozen layers."""
        batch, environment = make_token_batch(self.tokens, rows), require(self._trial.specification.environment)
        with torch.autocast(environment.device_type, enabled=False):  # as those that are stored
            outputs = self._frozen_model.run_frozen_layers(batch).cpu()
        return batch._replace(inputs=outputs)

    @cached_property
    def _frozen_model(self) -> Transformer:
        return self.load_model(seed=0)

    @cached_property
    def _lease_storage(self) -> Storage:
        return open_storage(str(self._trial.cache / "claims"))
