"""A task's queries, documents and sampled candidates on disk, under a fingerprint of settings and text.

`<cache>/prepared/<fingerprint>/{queries,documents,candidates}.parquet` and `meta.json`; domains of queries, on which no
run depends, beside them in `domains-<digest>.parquet`. Candidates are sampled in `<cache>/preparing/<fingerprint>/`.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.data.overlaps import load_overlaps
from trainables.data.store import PreparedFolder, once, place, pointer, remember, remembered, rows_digest
from trainables.data.tasks import SPLITS, Collection, task
from trainables.models import pretrained as weights
from trainables.specs import environment
from trainables.specs.ranker import SamplerSettings, TaskSettings
from trainables.utils.checksums import checked_file, checked_folder, intact
from trainables.utils.errors import UserError
from trainables.utils.hashing import digest
from trainables.utils.text_overlap import Overlap, Texts, count_overlaps

if TYPE_CHECKING:
    import pandas as pd

    from trainables.data.ranking_sampling import Progress

FORMAT = 2
"""Part of every fingerprint: raised when the same text would give other files."""


@dataclass(frozen=True)
class Prepared(PreparedFolder):
    """Prepared data of a task. Counts of `meta`: documents, skipped (by reason), and by split queries, pool, and the
    rows that are back_filled and relevant."""

    settings: TaskSettings
    """`public`: without paths."""
    domains: str | None = None
    """Digest of its queries' domains; none: it has none, or nobody asked."""
    repeated: int | None = None
    """Entries of the sources that name a query which was there before, and were merged with it; none: not counted."""

    def queries(self) -> "pd.DataFrame":
        """query_id, text; a row for every query that has candidates."""
        return self._table("queries")

    def documents(self) -> "pd.DataFrame":
        """document_id, text; a row for every document that is a candidate."""
        return self._table("documents")

    def candidates(self, split: str | None = None, columns: list[str] | None = None) -> "pd.DataFrame":
        """split, query_id, document_id, relevant, grade, score, weak_label, bm25; of one split or all, train first.

        `settings.candidates_of(split)` rows a query, relevant first, then the sampled, nearest first, then those drawn
        at random because the sampler found too few. `score` is the sampler's, null where it has none. `weak_label` is
        0 for a drawn document, null for a relevant one and where the sampler's score says nothing. `bm25` is null in
        the training split where nothing asked for it. `columns`: only these, which is faster; none: all.
        """
        if split is None:
            return self._table("candidates", columns)
        table = self._table("candidates", columns and ["split", *columns])
        return table[table["split"] == split].reset_index(drop=True)

    def overlaps(self) -> list[Overlap]:
        """Queries that several splits contain, as `trainables.data.overlaps` counts them."""
        return load_overlaps(self.folder, lambda: count_overlaps(self._queries_by_split(), "queries"))

    def _queries_by_split(self) -> dict[str, Texts]:
        texts, found = self.queries().set_index("query_id")["text"], {}
        table = self.candidates(columns=["split", "query_id"])
        for split in SPLITS:
            own = table.loc[table["split"] == split, "query_id"]
            names = own.iloc[:: self.settings.candidates_of(split)].tolist()
            found[split] = Texts(texts.loc[names].tolist(), names)
        return found

    def query_domains(self) -> "pd.Series | None":
        """Domain by query_id, of the queries that have one; None where none has."""
        return None if self.domains is None else self._table(f"domains-{self.domains}").set_index("query_id")["domain"]


def public(settings: TaskSettings) -> TaskSettings:
    """The settings as they identify data and runs: no path, no permission, encoders by the digest of their files."""
    samplers = {name: _by_digest(getattr(settings, name), name) for name in ("sampler", "evaluation_sampler")}
    return settings.model_copy(update={"path": None, "allowed_overlap": None, **samplers})


def _by_digest(sampler: SamplerSettings, key: str) -> SamplerSettings:
    if sampler.name != "dense":
        return sampler.model_copy(update={"encoder": SamplerSettings().encoder})
    digest = weights.encoder_digest(weights.encoder(sampler.encoder, f"task.{key}.encoder"))
    return sampler.model_copy(update={"encoder": digest})


def find(settings: TaskSettings, cache: Path) -> Prepared | None:
    """What is prepared already for these settings and the sources as they are, without reading them.

    0.2 s, nearly all of it the listing of the sources' files.

    Raises:
        UserError: unknown task, or its sources are missing.
    """
    known = public(settings)
    return _remembered(_pointer(settings, known, cache), known, cache)


def prepare(settings: TaskSettings, cache: Path, progress: "Progress | None" = None) -> Prepared:
    """Reads the task, samples its candidates and writes them, or finds that this was done.

    Args:
        settings: the task.
        cache: folder shared by studies.
        progress: called with a line of text at every step.

    Raises:
        UserError: unknown task, missing or wrong sources, a split without queries, or too few documents.
    """
    report = progress or (lambda _: None)
    known = public(settings)
    pointed = _pointer(settings, known, cache)  # before reading: sources that change meanwhile are read next time
    found = _remembered(pointed, known, cache)
    if found is not None:
        return found
    report(f"reading task {settings.name}")
    collection = _cut(task(settings.name).read(settings), settings.document_words)
    fingerprint = _fingerprint(known, collection)
    domains = digest(sorted(collection.domains.items())) if collection.domains else None
    prepared = Prepared(fingerprint, place(fingerprint, cache), known, domains, collection.repeated)
    work = cache / "preparing" / fingerprint
    once(prepared.folder, lambda: _write(prepared, work, settings, collection, report), report)
    _write_domains(prepared, collection)
    remember(pointed, {"fingerprint": fingerprint, "domains": domains, "repeated": collection.repeated})
    return prepared


def _pointer(settings: TaskSettings, known: TaskSettings, cache: Path) -> Path:
    return pointer([FORMAT, _identity(known), task(settings.name).state(settings)], cache)


def _remembered(pointed: Path, known: TaskSettings, cache: Path) -> Prepared | None:
    found = remembered(pointed)
    if found is None:
        return None
    folder = place(found["fingerprint"], cache)
    prepared = Prepared(found["fingerprint"], folder, known, found.get("domains"), found.get("repeated"))
    there = intact(prepared.folder) and (prepared.domains is None or intact(_domains_file(prepared)))
    return prepared if there else None


def _domains_file(prepared: Prepared) -> Path:
    return prepared.folder / f"domains-{prepared.domains}.parquet"


def _write_domains(prepared: Prepared, collection: Collection) -> None:
    if prepared.domains is None or intact(_domains_file(prepared), remove=True):
        return
    import pandas as pd

    names = [name for name in prepared.queries()["query_id"] if name in collection.domains]
    with checked_file(_domains_file(prepared)) as draft:
        table = pd.DataFrame({"query_id": names, "domain": [collection.domains[name] for name in names]}, dtype="str")
        table.to_parquet(draft, index=False)


def _identity(known: TaskSettings) -> dict[str, Any]:
    """What else the candidates depend on: embeddings also on the processor and the libraries, stems on theirs."""
    identity, samplers = known.model_dump(mode="json"), (known.sampler, known.evaluation_sampler)
    if any(sampler.name == "dense" for sampler in samplers):
        identity["environment"] = environment.current().model_dump(mode="json")
        identity["sentence-transformers"] = version("sentence-transformers")
    if any(sampler.words == "stemmed" for sampler in samplers):
        identity["PyStemmer"] = version("PyStemmer")
    return identity


def _cut(collection: Collection, words: int | None) -> Collection:
    if words is None:
        return collection
    return collection._replace(
        documents={name: _first_words(text, words) for name, text in collection.documents.items()}
    )


def _first_words(text: str, words: int) -> str:
    """`text`, or its first words where there are more."""
    parts = text.split(maxsplit=words)
    return text if len(parts) <= words else " ".join(parts[:words])


def _fingerprint(known: TaskSettings, collection: Collection) -> str:
    parts: tuple[Iterable[object], ...] = (
        sorted(collection.queries.items()),
        collection.documents.items(),
        collection.judgements,
        collection.given,
        sorted(collection.skipped.items()),
    )
    return digest([FORMAT, _identity(known), rows_digest(parts)])


def chosen_queries(settings: TaskSettings, collection: Collection) -> dict[str, list[str]]:
    """The query ids that are used, by split, in the order of the SHA-256 of the id.

    Raises:
        UserError: a split has no query with a relevant document.
    """
    ids: dict[str, set[str]] = {split: set() for split in SPLITS}
    for judgement in collection.judgements:
        if judgement.grade >= settings.relevant_from:
            ids[judgement.split].add(judgement.query_id)
    order = sorted(set().union(*ids.values()), key=lambda name: hashlib.sha256(name.encode()).digest())
    chosen = {}
    for split in SPLITS:
        names = [name for name in order[: settings.sample] if name in ids[split]]
        if not names:
            asked = f"task.sample = {settings.sample}, task.relevant_from = {settings.relevant_from}"
            raise UserError("task", f"no query with a relevant document in the {split} split", f"one, with {asked}")
        chosen[split] = names[: getattr(settings, f"{split}_queries")]
    return chosen


def _write(prepared: Prepared, work: Path, settings: TaskSettings, collection: Collection, report: "Progress") -> None:
    import pandas as pd

    from trainables.data.ranking_sampling import Preparation

    chosen = chosen_queries(settings, collection)
    preparation = Preparation(work, settings, collection, report)
    tables, counts = zip(*(preparation.split(split, chosen[split]) for split in SPLITS), strict=True)
    candidates = pd.concat(tables, ignore_index=True)
    used = set(candidates["document_id"])
    queries = dict.fromkeys(name for split in SPLITS for name in chosen[split])
    meta = {
        "format": FORMAT,
        "fingerprint": prepared.fingerprint,
        "settings": prepared.settings.model_dump(mode="json"),
        "documents": len(collection.documents),
        "skipped": collection.skipped,
        "splits": dict(zip(SPLITS, counts, strict=True)),
    }
    with checked_folder(prepared.folder) as draft:
        texts = [(name, collection.queries[name]) for name in queries]
        pd.DataFrame(texts, columns=["query_id", "text"]).to_parquet(draft / "queries.parquet", index=False)
        texts = [(name, text) for name, text in collection.documents.items() if name in used]
        pd.DataFrame(texts, columns=["document_id", "text"]).to_parquet(draft / "documents.parquet", index=False)
        candidates.to_parquet(draft / "candidates.parquet", index=False)
        (draft / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")
    shutil.rmtree(work, ignore_errors=True)
