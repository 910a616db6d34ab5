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
from trainables.data.store import (
    PreparedDataset,
    create_once,
    get_pointer_path,
    get_prepared_folder,
    hash_rows,
    read_pointer,
    write_pointer,
)
from trainables.data.tasks import SPLITS, IRDataset, get_task
from trainables.models import pretrained as weights
from trainables.specs import environment
from trainables.specs.ranker import RankerTaskSettings, SamplerSettings
from trainables.utils.checksums import is_intact, write_folder_with_checksums, write_with_checksum
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json
from trainables.utils.text_overlap import Overlap, SplitTexts, count_overlaps

if TYPE_CHECKING:
    import pandas as pd

    from trainables.data.ranking_sampling import ProgressCallback

FORMAT = 2
"""Part of every fingerprint: raised when the same text would give other files."""


@dataclass(frozen=True)
class RankingDataset(PreparedDataset):
    """Prepared data of a task. Counts of `meta`: documents, skipped (by reason), and by split queries, pool, and the
    rows that are back_filled and relevant."""

    settings: RankerTaskSettings
    """`public`: without paths."""
    domains: str | None = None
    """Digest of its queries' domains; none: it has none, or nobody asked."""
    repeated: int | None = None
    """Entries of the sources that name a query which was there before, and were merged with it; none: not counted."""

    def read_queries(self) -> "pd.DataFrame":
        """query_id, text; a row for every query that has candidates."""
        return self._read_table("queries")

    def read_documents(self) -> "pd.DataFrame":
        """document_id, text; a row for every document that is a candidate."""
        return self._read_table("documents")

    def read_candidates(self, split: str | None = None, columns: list[str] | None = None) -> "pd.DataFrame":
        """split, query_id, document_id, relevant, grade, score, weak_label, bm25; of one split or all, train first.

        `settings.candidates_of(split)` rows a query, relevant first, then the sampled, nearest first, then those drawn
        at random because the sampler found too few. `score` is the sampler's, null where it has none. `weak_label` is
        0 for a drawn document, null for a relevant one and where the sampler's score says nothing. `bm25` is null in
        the training split where nothing asked for it. `columns`: only these, which is faster; none: all.
        """
        if split is None:
            return self._read_table("candidates", columns)
        table = self._read_table("candidates", columns and ["split", *columns])
        return table[table["split"] == split].reset_index(drop=True)

    def find_overlaps(self) -> list[Overlap]:
        """Queries that several splits contain, as `trainables.data.overlaps` counts them."""
        return load_overlaps(self.folder, lambda: count_overlaps(self._group_queries_by_split(), "queries"))

    def _group_queries_by_split(self) -> dict[str, SplitTexts]:
        texts, groups = self.read_queries().set_index("query_id")["text"], {}
        table = self.read_candidates(columns=["split", "query_id"])
        for split in SPLITS:
            own = table.loc[table["split"] == split, "query_id"]
            names = own.iloc[:: self.settings.get_candidates_per_query(split)].tolist()
            groups[split] = SplitTexts(texts.loc[names].tolist(), names)
        return groups

    def read_query_domains(self) -> "pd.Series | None":
        """Domain by query_id, of the queries that have one; None where none has."""
        return (
            None
            if self.domains is None
            else self._read_table(f"domains-{self.domains}").set_index("query_id")["domain"]
        )


def to_portable_settings(settings: RankerTaskSettings) -> RankerTaskSettings:
    """The settings as they identify data and runs: no path, no permission, encoders by the digest of their files."""
    samplers = {name: _to_portable_sampler(getattr(settings, name), name) for name in ("sampler", "evaluation_sampler")}
    return settings.model_copy(update={"path": None, "allowed_overlap": None, **samplers})


def _to_portable_sampler(sampler: SamplerSettings, key: str) -> SamplerSettings:
    if sampler.name != "dense":
        return sampler.model_copy(update={"encoder": SamplerSettings().encoder})
    digest = weights.hash_encoder_files(weights.resolve_encoder_path(sampler.encoder, f"task.{key}.encoder"))
    return sampler.model_copy(update={"encoder": digest})


def find_prepared_data(settings: RankerTaskSettings, cache: Path) -> RankingDataset | None:
    """What is prepared already for these settings and the sources as they are, without reading them.

    0.2 s, nearly all of it the listing of the sources' files.

    Raises:
        UserError: unknown task, or its sources are missing.
    """
    known = to_portable_settings(settings)
    return _resolve_pointer(_get_pointer_path(settings, known, cache), known, cache)


def prepare_data(
    settings: RankerTaskSettings, cache: Path, progress: "ProgressCallback | None" = None
) -> RankingDataset:
    """Reads the task, samples its candidates and writes them, or finds that this was done.

    Args:
        settings: the task.
        cache: folder shared by studies.
        progress: called with a line of text at every step.

    Raises:
        UserError: unknown task, missing or wrong sources, a split without queries, or too few documents.
    """
    report = progress or (lambda _: None)
    known = to_portable_settings(settings)
    pointed = _get_pointer_path(
        settings, known, cache
    )  # before reading: sources that change meanwhile are read next time
    found = _resolve_pointer(pointed, known, cache)
    if found is not None:
        return found
    report(f"reading task {settings.name}")
    collection = _truncate_documents(get_task(settings.name).read_dataset(settings), settings.document_words)
    fingerprint = _compute_fingerprint(known, collection)
    domains = hash_json(sorted(collection.domains.items())) if collection.domains else None
    prepared = RankingDataset(fingerprint, get_prepared_folder(fingerprint, cache), known, domains, collection.repeated)
    work = cache / "preparing" / fingerprint
    create_once(prepared.folder, lambda: _sample_and_write(prepared, work, settings, collection, report), report)
    _write_domains(prepared, collection)
    write_pointer(pointed, {"fingerprint": fingerprint, "domains": domains, "repeated": collection.repeated})
    return prepared


def _get_pointer_path(settings: RankerTaskSettings, portable: RankerTaskSettings, cache: Path) -> Path:
    return get_pointer_path(
        [FORMAT, _build_identity(portable), get_task(settings.name).get_source_version(settings)], cache
    )


def _resolve_pointer(pointer: Path, portable: RankerTaskSettings, cache: Path) -> RankingDataset | None:
    entry = read_pointer(pointer)
    if entry is None:
        return None
    folder = get_prepared_folder(entry["fingerprint"], cache)
    prepared = RankingDataset(entry["fingerprint"], folder, portable, entry.get("domains"), entry.get("repeated"))
    is_complete = is_intact(prepared.folder) and (prepared.domains is None or is_intact(_get_domains_path(prepared)))
    return prepared if is_complete else None


def _get_domains_path(prepared: RankingDataset) -> Path:
    return prepared.folder / f"domains-{prepared.domains}.parquet"


def _write_domains(prepared: RankingDataset, dataset: IRDataset) -> None:
    if prepared.domains is None or is_intact(_get_domains_path(prepared), remove_damaged=True):
        return
    import pandas as pd

    names = [name for name in prepared.read_queries()["query_id"] if name in dataset.domains]
    with write_with_checksum(_get_domains_path(prepared)) as draft:
        table = pd.DataFrame({"query_id": names, "domain": [dataset.domains[name] for name in names]}, dtype="str")
        table.to_parquet(draft, index=False)


def _build_identity(portable: RankerTaskSettings) -> dict[str, Any]:
    """What else the candidates depend on: embeddings also on the processor and the libraries, stems on theirs."""
    identity, samplers = portable.model_dump(mode="json"), (portable.sampler, portable.evaluation_sampler)
    if any(sampler.name == "dense" for sampler in samplers):
        identity["environment"] = environment.detect_environment().model_dump(mode="json")
        identity["sentence-transformers"] = version("sentence-transformers")
    if any(sampler.words == "stemmed" for sampler in samplers):
        identity["PyStemmer"] = version("PyStemmer")
    return identity


def _truncate_documents(dataset: IRDataset, max_words: int | None) -> IRDataset:
    if max_words is None:
        return dataset
    return dataset._replace(
        documents={name: _truncate_text(text, max_words) for name, text in dataset.documents.items()}
    )


def _truncate_text(text: str, max_words: int) -> str:
    """`text`, or its first words where there are more."""
    parts = text.split(maxsplit=max_words)
    return text if len(parts) <= max_words else " ".join(parts[:max_words])


def _compute_fingerprint(portable: RankerTaskSettings, dataset: IRDataset) -> str:
    parts: tuple[Iterable[object], ...] = (
        sorted(dataset.queries.items()),
        dataset.documents.items(),
        dataset.qrels,
        dataset.candidates,
        sorted(dataset.skipped.items()),
    )
    return hash_json([FORMAT, _build_identity(portable), hash_rows(parts)])


def select_queries(settings: RankerTaskSettings, dataset: IRDataset) -> dict[str, list[str]]:
    """The query ids that are used, by split, in the order of the SHA-256 of the id.

    Raises:
        UserError: a split has no query with a relevant document.
    """
    ids: dict[str, set[str]] = {split: set() for split in SPLITS}
    for qrel in dataset.qrels:
        if qrel.grade >= settings.relevant_from:
            ids[qrel.split].add(qrel.query_id)
    order = sorted(set().union(*ids.values()), key=lambda name: hashlib.sha256(name.encode()).digest())
    chosen = {}
    for split in SPLITS:
        names = [name for name in order[: settings.sample] if name in ids[split]]
        if not names:
            asked = f"task.sample = {settings.sample}, task.relevant_from = {settings.relevant_from}"
            raise UserError("task", f"no query with a relevant document in the {split} split", f"one, with {asked}")
        chosen[split] = names[: getattr(settings, f"{split}_queries")]
    return chosen


def _sample_and_write(
    prepared: RankingDataset,
    work_folder: Path,
    settings: RankerTaskSettings,
    dataset: IRDataset,
    report: "ProgressCallback",
) -> None:
    import pandas as pd

    from trainables.data.ranking_sampling import CandidateSampler

    chosen = select_queries(settings, dataset)
    sampler = CandidateSampler(work_folder, settings, dataset, report)
    tables, counts = zip(*(sampler.sample_split(split, chosen[split]) for split in SPLITS), strict=True)
    candidates = pd.concat(tables, ignore_index=True)
    used = set(candidates["document_id"])
    queries = dict.fromkeys(name for split in SPLITS for name in chosen[split])
    meta = {
        "format": FORMAT,
        "fingerprint": prepared.fingerprint,
        "settings": prepared.settings.model_dump(mode="json"),
        "documents": len(dataset.documents),
        "skipped": dataset.skipped,
        "splits": dict(zip(SPLITS, counts, strict=True)),
    }
    with write_folder_with_checksums(prepared.folder) as draft:
        texts = [(name, dataset.queries[name]) for name in queries]
        pd.DataFrame(texts, columns=["query_id", "text"]).to_parquet(draft / "queries.parquet", index=False)
        texts = [(name, text) for name, text in dataset.documents.items() if name in used]
        pd.DataFrame(texts, columns=["document_id", "text"]).to_parquet(draft / "documents.parquet", index=False)
        candidates.to_parquet(draft / "candidates.parquet", index=False)
        (draft / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")
    shutil.rmtree(work_folder, ignore_errors=True)
