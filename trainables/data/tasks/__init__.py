"""Tasks: sources of queries, documents and relevance labels, each read by one module.

A new task is a module that provides `TASK` (short examples: `beir`, `qqp`), and an entry in `TASKS`, which is here.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Literal, NamedTuple

from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.errors import UserError
from trainables.utils.registry import Entry, Registry

SPLITS = ("train", "dev", "test")


class Qrel(NamedTuple):
    """Relevance label of a document for a query."""

    split: str
    query_id: str
    document_id: str
    grade: int = 1
    """The document is relevant if the grade is at least `RankerTaskSettings.relevant_from`."""


class Candidate(NamedTuple):
    """A non-relevant candidate that the source itself names.

    The candidates of a query are listed nearest first.
    """

    split: str
    query_id: str
    document_id: str
    score: float
    """Score from the source, NaN if the source has none."""


class IRDataset(NamedTuple):
    """All texts and relevance labels of a task, before candidates are sampled."""

    queries: dict[str, str]
    """Query id -> text."""
    documents: dict[str, str]
    """Document id -> text."""
    qrels: list[Qrel]
    candidates: list[Candidate]
    skipped: dict[str, int]
    """Reason for skipping something -> number of cases, as in "empty question" -> rows. Part of the fingerprint."""
    domains: dict[str, str] = {}  # noqa: RUF012
    """Query id -> domain, for the queries that have a domain."""
    repeated: int = 0
    """Number of entries that repeat an earlier query and were merged with it. Not part of the fingerprint."""
    spared_from: int | None = None
    """Smallest grade of a document that is never sampled as a negative, even if it does not count as relevant. If None,
    every document that is not relevant may be sampled."""


class Task(NamedTuple):
    """A task: the functions that read it and its defaults."""

    read_dataset: Callable[[RankerTaskSettings], IRDataset]
    get_source_version: Callable[[RankerTaskSettings], str]
    """Returns a text that is cheap to compute and changes whenever the result of `read_dataset` may change."""
    pool: Literal["judged", "all"] = "judged"
    """Documents that may be sampled.

    judged: the documents judged in the training split or in the split itself, as in the protocol of the papers. all:
    all documents of the collection, so that training may see documents of test queries. Retrieved candidates come from
    all.
    """
    added_tokens: tuple[str, ...] = ()
    """Special tokens that occur in the task's texts and that a model does not know."""
    is_dialogue: bool = False
    """True if a query is a list of utterances, each followed by one of `added_tokens`. A query that is too long for the
    model is cut as `RankerTaskSettings.truncation` says."""
    allowed_overlap: float = 0.01
    """Default of `RankerTaskSettings.allowed_overlap`."""
    reads_dev_share: bool = False
    """True if the task can take the dev split from the training queries; otherwise `dev_share` is an error."""
    count_candidates: Callable[[RankerTaskSettings], dict[str, Counter[int]]] | None = None
    """Returns split -> number of candidates that the source lists for a query -> number of queries. Relevant documents
    count in dev and test, not in train. None if a source rarely lists the same number for all queries."""

    def check_dev_share(self, settings: RankerTaskSettings) -> None:
        """Check that no dev share is given for a task that does not read it.

        Raises:
            UserError: If there is one.
        """
        if settings.dev_share is not None and not self.reads_dev_share:
            expected = f"none, since the task {settings.name} has no such choice"
            raise UserError("task.dev_share", repr(settings.dev_share), expected)

    def split_utterances(self, query: str) -> list[str]:
        """Return the utterances of a query, or the whole query if the task has no dialogues.

        Example:
            >>> get_task("dialogues").split_utterances("Hello? [UTTERANCE_SEP] Hi. [TURN_SEP]")
            ['Hello?', 'Hi.']
            >>> get_task("qqp").split_utterances("Is this one question?")
            ['Is this one question?']
        """
        if not self.is_dialogue:
            return [query]
        *parts, _ = re.split("|".join(map(re.escape, self.added_tokens)), query)  # the text ends with a separator
        return [part.strip() for part in parts]

    def list_added_tokens(self, settings: RankerTaskSettings) -> tuple[str, ...]:
        """Return the special tokens that a model must learn for the texts that it reads."""
        return self.added_tokens if settings.separators else ()


TASKS: Registry[Task] = Registry(
    Entry(
        "beir",
        "trainables.data.tasks.beir:TASK",
        "a folder in the layout of BEIR: corpus.jsonl, queries.jsonl, qrels/{train,dev,test}.tsv",
        "Thakur et al. (2021), BEIR",
        ("path", "dev_share"),
    ),
    Entry(
        "dialogues",
        "trainables.data.tasks.dialogues:TASK",
        "the next utterance of a conversation: {train,dev,test}.tsv of label, utterances, response",
        "Penha, Balan and Hauff (2019), MANtIS; also MSDialog and Ubuntu",
        ("path", "separators", "dev_share"),
    ),
    Entry(
        "docstrings",
        "trainables.data.tasks.docstrings:TASK",
        "the rest of a docstring, given its summary, from installed libraries",
        "the installed libraries",
        ("libraries",),
    ),
    Entry(
        "hard-negatives",
        "trainables.data.tasks.hard_negatives:TASK",
        "queries with listed negatives: one *.jsonl (qid, pos, neg.bm25), queries.tsv, passages.tsv",
        "sentence-transformers/msmarco-hard-negatives",
        ("path",),
    ),
    Entry(
        "irds:ID",
        "trainables.data.tasks.irds:TASK",
        "the dataset ID of ir_datasets (pip install ir-datasets), downloaded if necessary",
        "MacAvaney et al. (2021); ir_datasets",
        ("dev_share",),
        pattern="irds:.+",
    ),
    Entry(
        "msmarco",
        "trainables.data.tasks.msmarco:TASK",
        "passages for queries to Bing: collection.tsv, queries.{train,dev}.tsv, qrels.{train,dev}.tsv",
        "Nguyen et al. (2016), MS MARCO; split as in Penha and Hauff (2021), section 4",
        ("path", "dev_share"),
    ),
    Entry(
        "qqp",
        "trainables.data.tasks.qqp:TASK",
        "the duplicate of a question: quora_duplicate_questions.tsv, train.csv, or GLUE's {train,dev}.tsv",
        "Quora question pairs; as in Penha and Hauff (2021), section 4",
        ("path", "dev_share"),
    ),
    Entry(
        "trec-dl-YEAR",
        "trainables.data.tasks.msmarco:TASK",
        "msmarco with the queries and qrels of TREC Deep Learning of 2019 or 2020 as test split",
        "Craswell et al. (2020)",
        ("path", "dev_share"),
        pattern="trec-dl-20(?:19|20)",
        examples=("trec-dl-2019", "trec-dl-2020"),
    ),
    options=(
        "document_words",
        "train_queries",
        "dev_queries",
        "test_queries",
        "relevant_from",
        "candidates_run",
        "depth",
        "candidates",
        "train_negatives",
        "truncation",
        "allowed_overlap",
    ),
    kind=Task,
)
"""Task name -> task. Its module is imported on first use."""


def get_task(name: str) -> Task:
    """Return the registered task of this name.

    Raises:
        UserError: If no task has this name.

    Example:
        >>> get_task("dialogues").is_dialogue
        True
    """
    if name not in TASKS:
        raise UserError("task.name", repr(name), TASKS.describe_names(name))
    return TASKS[name]
