"""Builds a task's dataset row by row.

A contradiction between rows raises an error that names the location. Rows that are skipped are counted by reason.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Set

from trainables.data.tasks import SPLITS, Candidate, IRDataset, Qrel
from trainables.data.tasks.splits import choose_split
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.text_files import quote_text
from trainables.text.words import compose_text
from trainables.utils.errors import UserError

GRADES = range(-2, 128)
"""Valid grades. -1 and -2 mark documents that are not proper ones (spam) and count as 0. Prepared data store a grade in
8 bits, hence the upper end."""


class DatasetBuilder:
    """Collects queries, documents, qrels and candidates, which may be added in any order.

    `build` checks that they are consistent. Each method takes a `location`, which names the source of a row in the
    errors of that method and of `build`. It is converted to text only if an error is raised.

    Example:
        >>> builder = DatasetBuilder()
        >>> builder.add_query("queries.tsv, line 1", "q1", "How do I format a disk?")
        >>> builder.add_query("queries.tsv, line 2", "q1", "How do I format a disk?")
        >>> builder.queries, builder.repeated["q1"]
        ({'q1': 'How do I format a disk?'}, 1)
    """

    def __init__(self, needed_ids: Set[str] | None = None, dev_share: float | None = None) -> None:
        """Create an empty builder.

        Args:
            needed_ids: Ids of the documents to keep, see also `keep_document`. Other documents are checked and counted,
                but not kept in memory. If None, all documents are kept.
            dev_share: Share of the training queries that go into the dev split with their qrels and candidates, see
                `choose_split`. If None, all stay in the split that they are added to.
        """
        self.queries: dict[str, str] = {}
        self.documents: dict[str, str] = {}
        self.skipped: Counter[str] = Counter()
        self.repeated = Counter[str]()
        """Query id -> number of times that the query was repeated."""
        self._needed_ids, self._dev_share = None if needed_ids is None else {*needed_ids}, dev_share
        self._domains: dict[str, tuple[str, object]] = {}  # query id -> domain, location
        self._qrels: dict[tuple[str, str, str], tuple[int, object]] = {}  # split, query, document
        self._candidates: dict[tuple[str, str, str], tuple[float, object]] = {}

    def add_query(self, location: object, query_id: str, text: str) -> None:
        """Add a query. A repetition is counted.

        Raises:
            UserError: If the id or the text is empty, or if the id already has another text.
        """
        if query_id in self.queries:
            self.repeated[query_id] += 1
        add_text(self.queries, "query", location, query_id, text)

    def set_domain(self, location: object, query: str, domain: str) -> None:
        """Set the domain of a query, "" if it has none.

        Raises:
            UserError: If the query already has another domain.
        """
        known, first = self._domains.setdefault(query, (domain, location))
        if known != domain:
            expected = f"{quote_text(known)}, as in {first}"
            raise UserError(str(location), f"query {query} has domain {quote_text(domain)}", expected)

    def keep_document(self, document_id: str) -> None:
        """Keep a document that is added later, also if it is not among `needed_ids`."""
        if self._needed_ids is not None:
            self._needed_ids.add(document_id)

    def add_document(self, location: object, document_id: str, text: str) -> None:
        """Add a document. A repetition is ignored.

        Raises:
            UserError: If the id or the text is empty, or if the id already has another text.
        """
        if self._needed_ids is None or document_id in self._needed_ids:
            add_text(self.documents, "document", location, document_id, text)
        else:
            add_text({}, "document", location, document_id, text)
            self.skipped["document that is not needed"] += 1

    def add_qrel(self, location: object, split: str, query: str, document: str, grade: int = 1) -> None:
        """Add a relevance label. A repetition is counted, and a negative grade counts as 0.

        Raises:
            UserError: If the grade is not in `GRADES`, or if the pair already has another grade.
        """
        if grade not in GRADES:
            raise UserError(str(location), f"grade {grade}", f"{GRADES[0]} to {GRADES[-1]}")
        if grade < 0:
            self.skipped["grade below 0, taken as 0"] += 1
        pair, value = (choose_split(split, query, self._dev_share), query, document), max(grade, 0)
        if pair not in self._qrels:
            self._qrels[pair] = value, location
        elif self._qrels[pair][0] == value:
            self.skipped["judgement that was made before"] += 1
        else:
            known = self._qrels[pair]
            raise UserError(str(location), f"document {document} has grade {value}", f"{known[0]}, as in {known[1]}")

    def add_candidate(self, location: object, split: str, query: str, document: str, score: float) -> None:
        """Add a candidate that the source names.

        A repetition is skipped and counted. `build` does the same with a candidate that is relevant, unless the
        candidates of its split are those that a first stage retrieved.
        """
        pair = choose_split(split, query, self._dev_share), query, document
        if pair in self._candidates:
            self.skipped["candidate that was named before"] += 1
        else:
            self._candidates[pair] = score, location

    def build(self, settings: RankerTaskSettings) -> IRDataset:
        """Return the dataset, without the queries that have no relevance label.

        Raises:
            UserError: If a qrel or a candidate names an unknown query or document, or if a split has no relevant
                document.
        """
        qrels = []
        for (split, query, document), (grade, location) in self._qrels.items():
            if not (settings.allows_missing_texts and query in self.queries):
                self._check_ids(location, query, document)
            qrels.append(Qrel(split, query, document, grade))
        smallest = {split: settings.get_relevant_from(split) for split in SPLITS}
        relevant = {pair[:3] for pair in qrels if pair.grade >= smallest[pair.split]}
        for split in settings.splits:
            if not any(pair[0] == split for pair in relevant):
                count = sum(qrel.split == split for qrel in qrels)
                grades = f" of grade task.relevant_from = {smallest[split]} or more" if count else ""
                found = f"no relevant document in the {split} split, which has {count} qrels"
                is_shared = self._dev_share is not None and split != "test"
                other = f", or another task.dev_share than {self._dev_share:g}" if is_shared else ""
                expected = f"one{grades} in each of {', '.join(settings.splits)}{other}"
                raise UserError(settings.path or settings.name, found, expected)
        candidates = []
        for pair, (score, location) in self._candidates.items():
            self._check_ids(location, *pair[1:])
            if pair in relevant and not settings.is_retrieved(pair[0]):
                self.skipped["candidate that is relevant"] += 1
            else:
                candidates.append(Candidate(*pair, score))
        judged = {pair.query_id for pair in qrels}
        queries = {name: text for name, text in self.queries.items() if name in judged}
        if len(queries) < len(self.queries):
            self.skipped["query that nothing is judged for"] += len(self.queries) - len(queries)
        domains = {name: domain for name, (domain, _) in self._domains.items() if domain and name in queries}
        repeated = sum(self.repeated[name] for name in queries)
        return IRDataset(queries, self.documents, qrels, candidates, dict(self.skipped), domains, repeated)

    def _check_ids(self, location: object, query: str, document: str) -> None:
        for kind, name, known in (("query", query, self.queries), ("document", document, self.documents)):
            if name not in known:
                _require_id(kind, location, name)
                raise UserError(str(location), f"unknown {kind} {quote_text(name)}", f"the id of a {kind}")


def parse_grade(location: object, text: str) -> int:
    """Return the grade that a file contains as text.

    Raises:
        UserError: If the text is not a whole number.

    Example:
        >>> parse_grade("qrels.tsv, line 1", "2")
        2
    """
    if re.fullmatch("-?[0-9]{1,9}", text) is None:
        raise UserError(str(location), f"grade {quote_text(text)}", "a whole number")
    return int(text)


def add_text(texts: dict[str, str], kind: str, location: object, name: str, text: str) -> None:
    """Add a text to `texts`.

    Raises:
        UserError: If the id is not valid, if the text is empty, or if the id already has another text.
    """
    _require_id(kind, location, name)
    if not text or text.isspace():
        raise UserError(str(location), f"empty text of {kind} {name}", "text")
    if texts.setdefault(name, text) != text and compose_text(texts[name]) != compose_text(text):
        raise UserError(
            str(location),
            f"{kind} {name} again, with the text {quote_text(text)}",
            f"the same text as before, {quote_text(texts[name])}",
        )


def hash_text(text: str) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a composed text, which are its id where a file has none.

    Example:
        >>> hash_text("How do I format a disk?")
        'df89c9298eac2b18'
    """
    return hashlib.sha256(compose_text(text).encode()).hexdigest()[:16]


def _require_id(kind: str, location: object, name: str) -> None:
    if name.split() != [name]:
        raise UserError(str(location), f"invalid id {quote_text(name)}", f"the id of a {kind}, without white space")
