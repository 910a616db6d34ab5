"""Prepares a ranking task: reads it, finds the candidates of its queries and writes the tables of `RankingDataset`.

The fingerprint of the data is a hash of settings and texts. Candidates are found in `<cache>/preparing/<fingerprint>/`.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.data.ranking_dataset import RankingDataset
from trainables.data.store import (
    create_once,
    find_dataset,
    get_pointer_path,
    get_prepared_folder,
    hash_input_file,
    hash_rows,
    write_pointer,
)
from trainables.data.tasks import SPLITS, TASKS, IRDataset, get_task
from trainables.data.teacher import KEY as TEACHER_KEY
from trainables.data.teacher import write_teacher_scores
from trainables.models import pretrained
from trainables.specs import environment
from trainables.specs.ranking_task import EvaluationSamplerSettings, RankerTaskSettings, SamplerSettings
from trainables.specs.samplers import SAMPLERS
from trainables.text.words import has_separated_words
from trainables.utils.checksums import is_intact, write_folder_with_checksums, write_with_checksum
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    from trainables.data.ranking_sampling import ProgressCallback

FORMAT = 3
"""Part of every fingerprint. Increase it when the same text gives different files."""

_N_INSPECTED = 1000
_UNSEPARATED_NOTE = (
    "no blanks between the words of most documents: BM25 takes whole phrases for words; separate the words of queries "
    "and documents by blanks (word segmentation) before preparing them"
)
_MODEL_SETTINGS = {"label_noise", "label_noise_kind", "teacher", "document_words"}
"""Settings that change what training learns or what the model reads, and nothing of the prepared data."""


def to_portable_settings(settings: RankerTaskSettings) -> RankerTaskSettings:
    """Return the settings that identify data and runs; the data does not depend on the label noise.

    They contain neither a path nor the allowed overlap. An encoder is replaced by the digest of its files. The files of
    a teacher's scores and of a first stage's run are replaced by their digests. With such a run, the evaluation sampler
    is the default.
    """
    teacher = settings.teacher and hash_input_file(_expand_path(settings.teacher), TEACHER_KEY)
    runs = sorted(hash_input_file(_expand_path(name), "task.candidates_run") for name in settings.candidates_run)
    evaluation_sampler = EvaluationSamplerSettings() if runs else settings.evaluation_sampler
    encoder = SamplerSettings().encoder
    if "dense" in (settings.sampler.name, evaluation_sampler.name):
        path = pretrained.resolve_encoder_path(settings.sampler.encoder, "task.sampler.encoder")
        encoder = pretrained.hash_encoder_files(path)
    sampler = settings.sampler.model_copy(update={"encoder": encoder})
    own = {"path": None, "allowed_overlap": None, "teacher": teacher, "candidates_run": tuple(runs)}
    return settings.model_copy(update={**own, "sampler": sampler, "evaluation_sampler": evaluation_sampler})


def _expand_path(name: str) -> Path:
    return Path(os.path.expanduser(name)).absolute()


def find_prepared_data(settings: RankerTaskSettings, cache: Path) -> RankingDataset | None:
    """Return the data that are already prepared for these settings and the current sources, or None.

    The sources are not read. This takes 0.2 s, mostly for listing the source files.

    Raises:
        UserError: If the task is unknown or its sources are missing.
    """
    portable = to_portable_settings(settings)
    return find_dataset(RankingDataset, _get_pointer_path(settings, portable, cache), portable, cache)


def prepare_data(
    settings: RankerTaskSettings, cache: Path, progress: "ProgressCallback" = lambda _: None
) -> RankingDataset:
    """Read a task, sample its candidates and write them, unless the prepared data exist.

    Raises:
        UserError: If the task is unknown, if its sources are missing or malformed, if a split has no queries, or if
            there are too few documents.
    """
    portable = to_portable_settings(settings)
    pointer = _get_pointer_path(settings, portable, cache)  # before reading, so that later changes are read next time
    existing = find_dataset(RankingDataset, pointer, portable, cache)
    prepared = existing or _prepare(settings, portable, cache, pointer, progress)
    if settings.teacher and portable.teacher:
        names, file = ["query_id", "document_id"], _expand_path(settings.teacher)
        write_teacher_scores(prepared.folder, lambda: prepared.read_candidates("train", names), file, portable.teacher)
    return prepared


def _prepare(
    settings: RankerTaskSettings, portable: RankerTaskSettings, cache: Path, pointer: Path, report: "ProgressCallback"
) -> RankingDataset:
    report(f"reading task {settings.name}")
    dataset = _read_dataset(settings)
    fingerprint = _compute_fingerprint(portable, dataset)
    domains = hash_json(sorted(dataset.domains.items())) if dataset.domains else None
    prepared = RankingDataset(fingerprint, get_prepared_folder(fingerprint, cache), portable, domains, dataset.repeated)
    work_folder = cache / "preparing" / fingerprint
    create_once(prepared.folder, lambda: _sample_and_write(prepared, work_folder, settings, dataset, report), report)
    _write_domains(prepared, dataset)
    write_pointer(pointer, {"fingerprint": fingerprint, "domains": domains, "repeated": dataset.repeated})
    return prepared


def _read_dataset(settings: RankerTaskSettings) -> IRDataset:
    dataset = get_task(settings.name).read_dataset(settings)
    if TASKS.find_plugin(settings.name):
        _check_dataset(f"task {settings.name}", dataset)
    return dataset


def _check_dataset(where: str, dataset: IRDataset) -> None:
    """Check that the ids of a dataset belong together and that no pair occurs twice, as `DatasetBuilder` does."""
    for kind, rows in (("qrel", dataset.qrels), ("candidate", dataset.candidates)):
        pairs = set[tuple[str, str, str]]()
        for split, query, document, _ in rows:
            found = f"the {kind} of query {query!r} and document {document!r} in {split!r}"
            if split not in SPLITS or query not in dataset.queries or document not in dataset.documents:
                raise UserError(where, found, f"one of {', '.join(SPLITS)}, and a query and a document of the task")
            if (split, query, document) in pairs:
                raise UserError(where, f"{found}, twice", f"each {kind} once")
            pairs.add((split, query, document))


def _get_pointer_path(settings: RankerTaskSettings, portable: RankerTaskSettings, cache: Path) -> Path:
    task = get_task(settings.name)
    task.check_dev_share(settings)
    return get_pointer_path([FORMAT, _build_identity(portable), task.get_source_version(settings)], cache)


def _write_domains(prepared: RankingDataset, dataset: IRDataset) -> None:
    if prepared.domains is None or is_intact(prepared.domains_path, remove_damaged=True):
        return
    import pandas as pd

    names = [name for name in prepared.read_queries()["query_id"] if name in dataset.domains]
    with write_with_checksum(prepared.domains_path) as draft:
        table = pd.DataFrame({"query_id": names, "domain": [dataset.domains[name] for name in names]}, dtype="str")
        table.to_parquet(draft, index=False)


def _build_identity(portable: RankerTaskSettings) -> dict[str, Any]:
    """Return everything that the candidates depend on, except the texts.

    Embeddings also depend on the processor and the libraries, stems on the version of the stemmer, and what a
    plug-in provides on its code.
    """
    identity = portable.model_dump(mode="json", exclude=_MODEL_SETTINGS)
    samplers = [portable.get_sampler_settings(split) for split in ("train", "dev")]
    used = {TASKS.find_plugin(portable.name), *(SAMPLERS.find_plugin(sampler.name) for sampler in samplers)}
    if plugins := sorted(filter(None, used)):
        identity["plugins"] = plugins
    if portable.keeps_collection:
        identity["collection"] = "whole"
    if any(sampler.name == "dense" for sampler in samplers):
        identity["environment"] = environment.detect_environment().model_dump(mode="json")
        identity["sentence-transformers"] = version("sentence-transformers")
    if portable.sampler.protocol.words == "stemmed":
        identity["PyStemmer"] = version("PyStemmer")
    return identity


def check_words(documents: Iterable[str]) -> list[str]:
    """Return a note for a person if BM25 finds no words in most documents, and otherwise nothing."""
    return [] if has_separated_words(islice(documents, _N_INSPECTED)) else [_UNSEPARATED_NOTE]


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
    """Return the ids of the queries that are used, by split, in the order of their SHA-256.

    A query needs a relevant document if its candidates are sampled. If they are retrieved, it needs a judgement, since
    trec_eval and ir_measures count it.

    Args:
        settings: Settings of the task. `sample` limits the queries over all splits. `train_queries`, `dev_queries` and
            `test_queries` limit those of one split.
        dataset: The task's dataset.

    Raises:
        UserError: If a split has no such query.
    """
    ids: dict[str, set[str]] = {split: set() for split in SPLITS}
    smallest = {split: settings.get_relevant_from(split) for split in SPLITS}
    for qrel in dataset.qrels:
        if qrel.grade >= smallest[qrel.split] or settings.is_retrieved(qrel.split):
            ids[qrel.split].add(qrel.query_id)
    order = sorted(set().union(*ids.values()), key=lambda name: hashlib.sha256(name.encode()).digest())
    chosen = {}
    for split in settings.splits:
        names = [name for name in order if name in ids[split]]
        if not names:
            expected = f"one, with task.relevant_from = {smallest[split]}"
            raise UserError("task", f"no query with a relevant document in the {split} split", expected)
        chosen[split] = names[: getattr(settings, f"{split}_queries")]
    return chosen


def _count_queries_without_relevant(settings: RankerTaskSettings, dataset: IRDataset) -> dict[str, int]:
    """Return the numbers of judged queries that sampled candidates leave out, by reason, without those that are 0."""
    counts = {}
    for split in settings.splits:
        own = [qrel for qrel in dataset.qrels if qrel.split == split and not settings.is_retrieved(split)]
        relevant = {qrel.query_id for qrel in own if qrel.grade >= settings.get_relevant_from(split)}
        counts[f"{split} query without a relevant document"] = len({qrel.query_id for qrel in own} - relevant)
    return {reason: count for reason, count in counts.items() if count}


def _sample_and_write(
    prepared: RankingDataset,
    work_folder: Path,
    settings: RankerTaskSettings,
    dataset: IRDataset,
    report: "ProgressCallback",
) -> None:
    import pandas as pd

    from trainables.data.files.candidates_run import read_candidates_run
    from trainables.data.first_stage import build_retrieved_split
    from trainables.data.ranking_sampling import CandidateSampler

    chosen = select_queries(settings, dataset)
    for note in check_words(dataset.documents.values()):
        report(note)
    sampler = CandidateSampler(work_folder, settings, dataset, report)
    run = read_candidates_run(settings, report)
    tables, counts, qrels = dict[str, pd.DataFrame](), dict[str, Mapping[str, float]](), list[pd.DataFrame]()
    try:
        sampler.check_pools({split: chosen[split] for split in chosen if not settings.is_retrieved(split)})
        for split in filter(settings.is_retrieved, chosen):  # before training is sampled: a run may be a wrong one
            rankings = run if settings.candidates_run else sampler.retrieve_split(split, chosen[split])
            found = build_retrieved_split(split, chosen[split], rankings, dataset, settings)
            tables[split], counts[split] = found.candidates, found.counts
            qrels.append(found.qrels)
        for split in (split for split in chosen if split not in tables):
            tables[split], counts[split] = sampler.sample_split(split, chosen[split])
    except UserError:
        shutil.rmtree(work_folder, ignore_errors=True)  # corrected settings need other parts
        raise
    candidates = pd.concat([tables[split] for split in chosen], ignore_index=True)
    used = dataset.documents if settings.keeps_collection else set(candidates["document_id"])
    queries = dict.fromkeys(name for names in chosen.values() for name in names)
    meta = {
        "format": FORMAT,
        "fingerprint": prepared.fingerprint,
        "settings": prepared.settings.model_dump(mode="json", exclude=_MODEL_SETTINGS),
        "documents": len(dataset.documents),
        "skipped": dataset.skipped | _count_queries_without_relevant(settings, dataset),
        "splits": {split: counts[split] for split in chosen},
    }
    with write_folder_with_checksums(prepared.folder) as draft:
        texts = [(name, dataset.queries[name]) for name in queries]
        pd.DataFrame(texts, columns=["query_id", "text"]).to_parquet(draft / "queries.parquet", index=False)
        texts = [(name, text) for name, text in dataset.documents.items() if name in used]
        pd.DataFrame(texts, columns=["document_id", "text"]).to_parquet(draft / "documents.parquet", index=False)
        candidates.to_parquet(draft / "candidates.parquet", index=False)
        if qrels:
            pd.concat(qrels, ignore_index=True).to_parquet(draft / "qrels.parquet", index=False)
        (draft / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")
    shutil.rmtree(work_folder, ignore_errors=True)
