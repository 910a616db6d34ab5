"""Training sentences and pairs of sentences on disk, under a fingerprint of settings and text.

`<cache>/prepared/<fingerprint>/{sentences,pairs}.parquet` and `meta.json`.
"""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.data.overlaps import load_overlaps
from trainables.data.store import PreparedFolder, once, place, pointer, remember, remembered, rows_digest
from trainables.data.tasks import readers as reading
from trainables.data.tasks import sts
from trainables.specs.sentence_encoder import SentencesSettings
from trainables.utils.checksums import checked_folder, intact
from trainables.utils.errors import UserError
from trainables.utils.hashing import digest
from trainables.utils.text_overlap import Overlap, Texts, count_overlaps

if TYPE_CHECKING:
    import pandas as pd

    from trainables.data.ranking_sampling import Progress

FORMAT = 2
"""Part of every fingerprint: raised when the same text would give other files."""
EVALUATED = ("dev", "test")
"""The splits of pairs."""


@dataclass(frozen=True)
class PreparedSentences(PreparedFolder):
    """Prepared sentences and pairs. `meta`: fingerprint, settings, skipped (reason -> count), splits (of train the
    number of sentences, of the others that of distinct pairs, under "queries"), sets (split -> query_id -> pairs)."""

    settings: SentencesSettings
    """`public`: without paths."""
    domains: None = None
    """Sentences have none."""

    def sentences(self) -> list[str]:
        """The training sentences, each once, in the order of the file."""
        return self._table("sentences")["text"].tolist()

    def overlaps(self) -> list[Overlap]:
        """Sentences that several splits contain, as `trainables.data.overlaps` counts them."""
        return load_overlaps(self.folder, lambda: count_overlaps(self._sentences_by_split(), "sentences"))

    def _sentences_by_split(self) -> dict[str, Texts]:
        found, pairs = {"train": Texts(self.sentences())}, self.pairs()
        for split, own in pairs.groupby("split"):
            found[str(split)] = Texts(list(dict.fromkeys((*own["first"], *own["second"]))))
        return found

    def pairs(self, split: str | None = None) -> "pd.DataFrame":
        """split, query_id, document_id, first, second, relevant, pair_id, as in `sts.Pair`; of one split or both, dev
        first."""
        table = self._table("pairs")
        return table if split is None else table[table["split"] == split].reset_index(drop=True)


def public(settings: SentencesSettings) -> SentencesSettings:
    """The settings as they identify data and runs: no path, no permission."""
    return settings.model_copy(update={"path": None, "evaluation_path": None, "allowed_overlap": None})


def find(settings: SentencesSettings, cache: Path) -> PreparedSentences | None:
    """What is prepared already for these settings and the files as they are, without reading them.

    Raises:
        UserError: a file is missing.
    """
    return _remembered(_pointer(settings, cache), settings, cache)


def prepare(settings: SentencesSettings, cache: Path, progress: "Progress | None" = None) -> PreparedSentences:
    """Reads sentences and pairs and writes them, or finds that this was done.

    A sentence is a line without the white space around it.

    Args:
        settings: which.
        cache: folder shared by studies.
        progress: called with a line of text at every step.

    Raises:
        UserError: a file is missing or not in its format, or holds no sentence; see `sts.read`.
    """
    report = progress or (lambda _: None)
    pointed = _pointer(settings, cache)  # before reading: files that change meanwhile are read next time
    found = _remembered(pointed, settings, cache)
    if found is not None:
        return found
    report(f"reading {settings.path}")
    skipped = Counter[str]()
    sentences = _read(_text(settings), settings.sentences, skipped)
    report(f"reading {', '.join(settings.sets)}")
    pairs = sts.read(_evaluation(settings), settings.sets, skipped)
    known = public(settings)
    text = rows_digest((sentences, pairs, sorted(skipped.items())))
    fingerprint = digest([FORMAT, known.model_dump(mode="json"), text])
    prepared = PreparedSentences(fingerprint, place(fingerprint, cache), known)
    once(prepared.folder, lambda: _write(prepared, sentences, pairs, skipped), report)
    remember(pointed, {"fingerprint": fingerprint})
    return prepared


def _text(settings: SentencesSettings) -> Path:
    path = reading.existing(settings.path, "task.path", "a file of sentences, one a line")
    if not path.is_file():
        raise UserError("task.path", f"{path} is a folder", "a file of sentences, one a line")
    return path


def _evaluation(settings: SentencesSettings) -> Path:
    return reading.existing(settings.evaluation_path, "task.evaluation_path", sts.EXPECTED)


def _pointer(settings: SentencesSettings, cache: Path) -> Path:
    sources = [_text(settings), *sts.files(_evaluation(settings), settings.sets)]
    return pointer([FORMAT, public(settings).model_dump(mode="json"), reading.state(sources)], cache)


def _remembered(pointed: Path, settings: SentencesSettings, cache: Path) -> PreparedSentences | None:
    found = remembered(pointed)
    if found is None:
        return None
    prepared = PreparedSentences(found["fingerprint"], place(found["fingerprint"], cache), public(settings))
    return prepared if intact(prepared.folder) else None


def _read(path: Path, most: int | None, skipped: Counter[str]) -> list[str]:
    """Each sentence once, in the order of the file; the first `most` by SHA-256."""
    found: dict[str, None] = {}
    for _, line in reading.lines(path):
        text = line.strip()
        if not text:
            skipped["blank sentence"] += 1
        elif text in found:
            skipped["sentence that was there before"] += 1
        else:
            found[text] = None
    if not found:
        raise UserError(str(path), "no sentence", "sentences, one a line")
    if most is None or most >= len(found):
        return list(found)
    chosen = set(sorted(found, key=lambda text: hashlib.sha256(text.encode()).digest())[:most])
    return [text for text in found if text in chosen]


def _write(prepared: PreparedSentences, sentences: list[str], pairs: list[sts.Pair], skipped: Counter[str]) -> None:
    import pandas as pd

    sets = {split: Counter(pair.query_id for pair in pairs if pair.split == split) for split in EVALUATED}
    frame = pd.DataFrame(pairs, columns=sts.Pair._fields).assign(pair_id=[pair.pair_id for pair in pairs])
    distinct = {split: frame.loc[frame["split"] == split, "pair_id"].nunique() for split in EVALUATED}
    counts = {"train": len(sentences), **distinct}
    meta: dict[str, Any] = {
        "format": FORMAT,
        "fingerprint": prepared.fingerprint,
        "settings": prepared.settings.model_dump(mode="json"),
        "skipped": skipped,
        "splits": {split: {"queries": count} for split, count in counts.items()},
        "sets": sets,
    }
    with checked_folder(prepared.folder) as draft:
        pd.DataFrame({"text": sentences}, dtype="str").to_parquet(draft / "sentences.parquet", index=False)
        frame.to_parquet(draft / "pairs.parquet", index=False)
        (draft / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")
