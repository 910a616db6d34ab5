"""A collection gathered row by row: what contradicts is an error that names its place, what is left out is counted."""

import re
from collections import Counter
from collections.abc import Set

from trainables.data.tasks import SPLITS, Candidate, IRDataset, Qrel
from trainables.data.tasks.readers import quote_text
from trainables.specs.ranker import RankerTaskSettings
from trainables.utils.errors import UserError

GRADES = range(-2, 128)
"""-1 and -2 mark what is no proper document (spam) and count as 0; prepared data store a grade in 8 bits."""


class DatasetBuilder:
    """Queries, documents, judgements and candidates in any order; `finish` checks how they fit together.

    The `place` of a method is the `where` of the UserErrors that it or `finish` raises; its text is made only then.
    """

    def __init__(self, needed_ids: Set[str] | None = None) -> None:
        """Documents whose ids are not in `only` are checked, but not kept in memory; none: all are kept."""
        self.queries: dict[str, str] = {}
        self.documents: dict[str, str] = {}
        self.skipped: Counter[str] = Counter()
        self.repeated = Counter[str]()
        """Query id -> how often it was named again."""
        self._needed_ids = needed_ids
        self._domains: dict[str, tuple[str, object]] = {}  # of a query
        self._qrels: dict[tuple[str, str, str], tuple[int, object]] = {}  # split, query, document
        self._candidates: dict[tuple[str, str, str], tuple[float, object]] = {}

    def add_query(self, location: object, query_id: str, text: str) -> None:
        """Adds a query; the same again is counted, another text under its id is an error."""
        if query_id in self.queries:
            self.repeated[query_id] += 1
        add_text(self.queries, "query", location, query_id, text)

    def set_domain(self, location: object, query: str, domain: str) -> None:
        """Says what domain a query is of, "" for none; another one for the same query is an error."""
        known, first = self._domains.setdefault(query, (domain, location))
        if known != domain:
            expected = f"{quote_text(known)}, as at {first}"
            raise UserError(str(location), f"query {query} has domain {quote_text(domain)}", expected)

    def add_document(self, location: object, document_id: str, text: str) -> None:
        """Adds a document; the same again is no error, another text under its id is."""
        if self._needed_ids is None or document_id in self._needed_ids:
            add_text(self.documents, "document", location, document_id, text)
        else:
            add_text({}, "document", location, document_id, text)
            self.skipped["document that is not needed"] += 1

    def add_qrel(self, location: object, split: str, query: str, document: str, grade: int = 1) -> None:
        """Adds a judgement; the same again is counted, another grade for the same pair is an error."""
        if grade not in GRADES:
            raise UserError(str(location), f"grade {grade}", f"{GRADES[0]} to {GRADES[-1]}")
        if grade < 0:
            self.skipped["grade below 0, taken as 0"] += 1
        pair, value = (split, query, document), max(grade, 0)
        if pair not in self._qrels:
            self._qrels[pair] = value, location
        elif self._qrels[pair][0] == value:
            self.skipped["judgement that was made before"] += 1
        else:
            known = self._qrels[pair]
            raise UserError(str(location), f"document {document} has grade {value}", f"{known[0]}, as at {known[1]}")

    def add_candidate(self, location: object, split: str, query: str, document: str, score: float) -> None:
        """Adds a candidate that the source names; a second mention, or one of a relevant document, is counted."""
        if (split, query, document) in self._candidates:
            self.skipped["candidate that was named before"] += 1
        else:
            self._candidates[split, query, document] = score, location

    def build(self, settings: RankerTaskSettings) -> IRDataset:
        """The collection, without the queries that nothing was judged for.

        Raises:
            UserError: a judged query or document, or a candidate, is unknown; a split has no relevant document.
        """
        qrels = []
        for (split, query, document), (grade, location) in self._qrels.items():
            self._check_ids(location, query, document)
            qrels.append(Qrel(split, query, document, grade))
        relevant = {pair[:3] for pair in qrels if pair.grade >= settings.relevant_from}
        for split in SPLITS:
            if not any(pair[0] == split for pair in relevant):
                expected = f"one of grade {settings.relevant_from} or more in each of {', '.join(SPLITS)}"
                raise UserError(settings.path or settings.name, f"no relevant document in the {split} split", expected)
        candidates = []
        for pair, (score, location) in self._candidates.items():
            self._check_ids(location, *pair[1:])
            if pair in relevant:
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
    """A grade as a file writes it.

    Raises:
        UserError: not a whole number.
    """
    if re.fullmatch("-?[0-9]{1,9}", text) is None:
        raise UserError(str(location), f"grade {quote_text(text)}", "a whole number")
    return int(text)


def add_text(texts: dict[str, str], kind: str, location: object, name: str, text: str) -> None:
    """Adds `text` under its id to `texts`.

    Raises:
        UserError: no id, an empty text, or another one stands there already; `kind` says of what.
    """
    _require_id(kind, location, name)
    if not text or text.isspace():
        raise UserError(str(location), f"empty text of {kind} {name}", "text")
    if texts.setdefault(name, text) != text:
        raise UserError(
            str(location), f"{kind} {name} a second time, as {quote_text(text)}", f"{quote_text(texts[name])} again"
        )


def _require_id(kind: str, location: object, name: str) -> None:
    if name.split() != [name]:
        raise UserError(
            str(location), f"text where an id belongs, {quote_text(name)}", f"the id of a {kind}, no white space"
        )
