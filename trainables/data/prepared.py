"""A task's queries, documents and sampled candidates on disk, under a fingerprint of settings and text.

`<cache>/prepared/<fingerprint>/{queries,documents,candidates}.parquet` and `meta.json`. Reading the collection takes
seconds, so `<cache>/sources/` remembers which fingerprint the unchanged sources gave.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.data import SPLITS, Collection, task
from trainables.errors import UserError
from trainables.files import whole_folder, write_json
from trainables.specification import TaskSettings, digest

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
"""Part of every fingerprint: raised when the same text would give other files."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """Prepared data of a task."""

    fingerprint: str
    folder: Path
    settings: TaskSettings

    def queries(self) -> "pd.DataFrame":
        """query_id, text; a row for every query that has candidates."""
        return self._table("queries")

    def documents(self) -> "pd.DataFrame":
        """document_id, text; a row for every document of the collection."""
        return self._table("documents")

    def candidates(self, split: str | None = None) -> "pd.DataFrame":
        """split, query_id, document_id, relevant, grade, score, weak_label; of one split, or all: train, dev, test.

        `settings.candidates` rows a query, relevant first, then the sampled by descending score. `weak_label` is in
        [0.01, 0.99], 0 for a document drawn at random because the sampler found too few, null if relevant.
        """
        table = self._table("candidates")
        return table if split is None else table[table["split"] == split].reset_index(drop=True)

    def meta(self) -> dict[str, Any]:
        """fingerprint, settings, and the counts: documents, and by split queries, pool and back_filled (rows)."""
        meta: dict[str, Any] = json.loads((self.folder / "meta.json").read_text(encoding="utf-8"))
        return meta

    def _table(self, name: str) -> "pd.DataFrame":
        import pandas as pd

        return pd.read_parquet(self.folder / f"{name}.parquet")


def find(settings: TaskSettings, cache: Path) -> Prepared | None:
    """What is prepared already for these settings and the sources as they are, without reading them.

    0.2 s, nearly all of it the listing of the sources' files.

    Raises:
        UserError: unknown task, or its sources are missing.
    """
    return _remembered(_pointer(settings, cache), settings, cache)


def prepare(settings: TaskSettings, cache: Path, progress: Progress | None = None) -> Prepared:
    """Reads the task, samples its candidates and writes them, or finds that this was done.

    Two processes may prepare the same data at once.

    Args:
        settings: the task.
        cache: folder shared by studies.
        progress: called with a line of text at every step.

    Raises:
        UserError: unknown task, missing sources, or fewer queries or documents than the settings ask for.
    """
    report = progress or (lambda _: None)
    pointer = _pointer(settings, cache)  # before reading: sources that change meanwhile are read again next time
    found = _remembered(pointer, settings, cache)
    if found is not None:
        return found
    report(f"reading task {settings.name}")
    collection = task(settings.name).read(settings)
    fingerprint = _fingerprint(settings, collection)
    folder = cache / "prepared" / fingerprint
    if not folder.is_dir():
        _write(folder, fingerprint, settings, collection, report)
    write_json(pointer, {"fingerprint": fingerprint})
    return Prepared(fingerprint, folder, settings)


def _pointer(settings: TaskSettings, cache: Path) -> Path:
    state = task(settings.name).state(settings)
    return cache / "sources" / f"{digest([FORMAT, settings.model_dump(mode='json'), state])}.json"


def _remembered(pointer: Path, settings: TaskSettings, cache: Path) -> Prepared | None:
    try:
        fingerprint = json.loads(pointer.read_text(encoding="utf-8"))["fingerprint"]
    except FileNotFoundError:
        return None
    folder = cache / "prepared" / fingerprint
    return Prepared(fingerprint, folder, settings) if folder.is_dir() else None


def _fingerprint(settings: TaskSettings, collection: Collection) -> str:
    text = json.dumps([sorted(collection.queries.items()), list(collection.documents.items()), collection.relevant])
    return digest([FORMAT, settings.model_dump(mode="json"), hashlib.sha256(text.encode()).hexdigest()])


def chosen_queries(settings: TaskSettings, collection: Collection) -> dict[str, list[str]]:
    """The query ids that are used, by split, in the order of the SHA-256 of the id.

    Raises:
        UserError: a split has fewer queries than asked for, or none.
    """
    chosen = {}
    for split in SPLITS:
        ids = {pair.query_id for pair in collection.relevant if pair.split == split}
        wanted: int | None = getattr(settings, f"{split}_queries")
        if len(ids) < (wanted or 1):
            raise UserError(f"task.{split}_queries", wanted or "all", f"at most {len(ids)}, all that the task has")
        chosen[split] = sorted(ids, key=lambda name: hashlib.sha256(name.encode()).digest())[:wanted]
    return chosen


def _write(folder: Path, fingerprint: str, settings: TaskSettings, collection: Collection, report: Progress) -> None:
    import pandas as pd

    from trainables.data.candidates import sample_split

    chosen = chosen_queries(settings, collection)
    tables, counts = [], {}
    for split in SPLITS:
        report(f"sampling candidates of {len(chosen[split])} {split} queries")
        table, counts[split] = sample_split(settings, collection, split, chosen[split])
        tables.append(table)
    queries = [(name, collection.queries[name]) for split in SPLITS for name in chosen[split]]
    meta = {
        "format": FORMAT,
        "fingerprint": fingerprint,
        "settings": settings.model_dump(mode="json"),
        "documents": len(collection.documents),
        "splits": counts,
    }
    with whole_folder(folder) as draft:
        pd.DataFrame(queries, columns=["query_id", "text"]).to_parquet(draft / "queries.parquet", index=False)
        documents = pd.DataFrame(collection.documents.items(), columns=["document_id", "text"])
        documents.to_parquet(draft / "documents.parquet", index=False)
        pd.concat(tables, ignore_index=True).to_parquet(draft / "candidates.parquet", index=False)
        (draft / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")
