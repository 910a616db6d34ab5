"""Prepares the data of the sentence encoder: training sentences and evaluation pairs on disk.

The files are `<cache>/prepared/<fingerprint>/{sentences,pairs}.parquet` and `meta.json`. The fingerprint is a hash of
settings and texts.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trainables.data.files import readers
from trainables.data.store import (
    PreparedDataset,
    create_once,
    find_dataset,
    get_pointer_path,
    get_prepared_folder,
    hash_rows,
    write_pointer,
)
from trainables.data.tasks import sts
from trainables.specs.sentence_encoder import EncoderTaskSettings
from trainables.text.text_files import read_lines
from trainables.text.text_overlap import SplitTexts
from trainables.utils.checksums import write_folder_with_checksums
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    import pandas as pd

    from trainables.data.ranking_sampling import ProgressCallback

FORMAT = 2
"""Part of every fingerprint. Increase it when the same text gives different files."""
EVALUATION_SPLITS = ("dev", "test")
"""Splits that contain pairs of sentences."""


@dataclass(frozen=True)
class SentenceDataset(PreparedDataset):
    """Prepared sentences and pairs.

    The metadata contain fingerprint, settings, skipped (reason -> count), splits and sets (split -> query_id -> number
    of pairs). The count of a split is under "queries": the sentences of train, the distinct pairs of dev and test.
    """

    settings: EncoderTaskSettings
    """Settings without paths, see `to_portable_settings`."""
    domains: None = None
    """None, because sentences have no domains."""
    texts: ClassVar[str] = "sentences"

    def read_sentences(self) -> list[str]:
        """Return the training sentences, each once, in the order of the file."""
        return self._read_table("sentences")["text"].tolist()

    def _group_texts(self) -> dict[str, SplitTexts]:
        groups, pairs = {"train": SplitTexts(self.read_sentences())}, self.read_pairs()
        for split, rows in pairs.groupby("split"):
            groups[str(split)] = SplitTexts(list(dict.fromkeys((*rows["first"], *rows["second"]))))
        return groups

    def read_pairs(self, split: str | None = None) -> "pd.DataFrame":
        """Return the pairs of one split, or of both with dev first.

        The columns are split, query_id, document_id, first, second, relevant and pair_id, see `sts.SentencePair`.
        """
        table = self._read_table("pairs")
        return table if split is None else table[table["split"] == split].reset_index(drop=True)


def to_portable_settings(settings: EncoderTaskSettings) -> EncoderTaskSettings:
    """Return the settings that identify data and runs, without paths and without the allowed overlap."""
    return settings.model_copy(update={"path": None, "evaluation_path": None, "allowed_overlap": None})


def find_prepared_data(settings: EncoderTaskSettings, cache: Path) -> SentenceDataset | None:
    """Return the data that are already prepared for these settings and the current files, or None.

    The files are not read.

    Raises:
        UserError: If a file is missing.
    """
    portable = to_portable_settings(settings)
    return find_dataset(SentenceDataset, _get_pointer_path(settings, portable, cache), portable, cache)


def prepare_data(
    settings: EncoderTaskSettings, cache: Path, progress: "ProgressCallback" = lambda _: None
) -> SentenceDataset:
    """Read sentences and pairs and write them, unless the prepared data exist.

    A sentence is a line without leading and trailing white space.

    Raises:
        UserError: If a file is missing or not in its format (see `sts.read_pairs`), or if the file of training
            sentences is empty.
    """
    portable = to_portable_settings(settings)
    pointer = _get_pointer_path(settings, portable, cache)  # before reading, so that later changes are read next time
    if existing := find_dataset(SentenceDataset, pointer, portable, cache):
        return existing
    progress(f"reading {settings.path}")
    skipped = Counter[str]()
    sentences = _read_sentences(_get_text_path(settings), skipped)
    progress(f"reading {', '.join(settings.sets)}")
    pairs = sts.read_pairs(_get_evaluation_folder(settings), settings.sets, skipped)
    text_hash = hash_rows((sentences, pairs, sorted(skipped.items())))
    fingerprint = hash_json([FORMAT, portable.model_dump(mode="json"), text_hash])
    prepared = SentenceDataset(fingerprint, get_prepared_folder(fingerprint, cache), portable)
    create_once(prepared.folder, lambda: _write_dataset(prepared, sentences, pairs, skipped), progress)
    write_pointer(pointer, {"fingerprint": fingerprint})
    return prepared


def _get_text_path(settings: EncoderTaskSettings) -> Path:
    path = readers.require_path(settings.path, "task.path", "a file of sentences, one per line")
    if not path.is_file():
        raise UserError("task.path", f"{path} is a folder", "a file of sentences, one per line")
    return path


def _get_evaluation_folder(settings: EncoderTaskSettings) -> Path:
    return readers.require_path(settings.evaluation_path, "task.evaluation_path", sts.EXPECTED_LAYOUT)


def _get_pointer_path(settings: EncoderTaskSettings, portable: EncoderTaskSettings, cache: Path) -> Path:
    sources = [_get_text_path(settings), *sts.find_pair_files(_get_evaluation_folder(settings), settings.sets)]
    return get_pointer_path([FORMAT, portable.model_dump(mode="json"), readers.hash_file_stats(sources)], cache)


def _read_sentences(path: Path, skipped: Counter[str]) -> list[str]:
    """Return each sentence once, in the order of the file. Skipped lines are counted in `skipped`."""
    sentences: dict[str, None] = {}
    for _, line in read_lines(path):
        text = line.strip()
        if not text:
            skipped["blank sentence"] += 1
        elif text in sentences:
            skipped["sentence that was there before"] += 1
        else:
            sentences[text] = None
    if not sentences:
        raise UserError(str(path), "no sentences", "one or more, one per line")
    return list(sentences)


def _write_dataset(
    prepared: SentenceDataset, sentences: list[str], pairs: list[sts.SentencePair], skipped: Counter[str]
) -> None:
    import pandas as pd

    sets = {split: Counter(pair.query_id for pair in pairs if pair.split == split) for split in EVALUATION_SPLITS}
    frame = pd.DataFrame(pairs, columns=sts.SentencePair._fields).assign(pair_id=[pair.pair_id for pair in pairs])
    distinct = {split: frame.loc[frame["split"] == split, "pair_id"].nunique() for split in EVALUATION_SPLITS}
    counts = {"train": len(sentences), **distinct}
    meta: dict[str, Any] = {
        "format": FORMAT,
        "fingerprint": prepared.fingerprint,
        "settings": prepared.settings.model_dump(mode="json"),
        "skipped": skipped,
        "splits": {split: {"queries": count} for split, count in counts.items()},
        "sets": sets,
    }
    with write_folder_with_checksums(prepared.folder) as draft:
        pd.DataFrame({"text": sentences}, dtype="str").to_parquet(draft / "sentences.parquet", index=False)
        frame.to_parquet(draft / "pairs.parquet", index=False)
        (draft / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")
