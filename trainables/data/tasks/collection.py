"""A collection gathered row by row: what contradicts is an error that names its place, what is left out is counted."""

import re
from collections import Counter
from collections.abc import Set

from trainables.data.tasks import SPLITS, Collection, Given, Judgement
from trainables.data.tasks.readers import quoted
from trainables.specs.ranker import TaskSettings
from trainables.utils.errors import UserError

GRADES = range(-2, 128)
"""-1 and -2 mark what is no proper document (spam) and count as 0; prepared data store a grade in 8 bits."""


class Collector:
    """Queries, documents, judgements and candidates in any order; `finish` checks how they fit together.

    The `place` of a method is the `where` of the UserErrors that it or `finish` raises; its text is made only then.
    """

    def __init__(self, only: Set[str] | None = None) -> None:
        """Documents whose ids are not in `only` are checked, but not kept in memory; none: all are kept."""
        self.queries: dict[str, str] = {}
        self.documents: dict[str, str] = {}
        self.skipped: Counter[str] = Counter()
        self.repeated = Counter[str]()
        """Query id -> how often it was named again."""
        self._only = only
        self._domains: dict[str, tuple[str, object]] = {}  # of a query
        self._judgements: dict[tuple[str, str, str], tuple[int, object]] = {}  # split, query, document
        self._candidates: dict[tuple[str, str, str], tuple[float, object]] = {}

    def query(self, place: object, name: str, text: str) -> None:
        """Adds a query; the same again is counted, another text under its id is an error."""
        if name in self.queries:
            self.repeated[name] += 1
        add(self.queries, "query", place, name, text)

    def domain(self, place: object, query: str, domain: str) -> None:
        """Says what domain a query is of, "" for none; another one for the same query is an error."""
        known, first = self._domains.setdefault(query, (domain, place))
        if known != domain:
            expected = f"{quoted(known)}, as at {first}"
            raise UserError(str(place), f"query {query} has domain {quoted(domain)}", expected)

    def document(self, place: object, name: str, text: str) -> None:
        """Adds a document; the same again is no error, another text under its id is."""
        if self._only is None or name in self._only:
            add(self.documents, "document", place, name, text)
        else:
            add({}, "document", place, name, text)
            self.skipped["document that is not needed"] += 1

    def judgement(self, place: object, split: str, query: str, document: str, grade: int = 1) -> None:
        """Adds a judgement; the same again is counted, another grade for the same pair is an error."""
        if grade not in GRADES:
            raise UserError(str(place), f"grade {grade}", f"{GRADES[0]} to {GRADES[-1]}")
        if grade < 0:
            self.skipped["grade below 0, taken as 0"] += 1
        pair, value = (split, query, document), max(grade, 0)
        if pair not in self._judgements:
            self._judgements[pair] = value, place
        elif self._judgements[pair][0] == value:
            self.skipped["judgement that was made before"] += 1
        else:
            known = self._judgements[pair]
            raise UserError(str(place), f"document {document} has grade {value}", f"{known[0]}, as at {known[1]}")

    def candidate(self, place: object, split: str, query: str, document: str, score: float) -> None:
        """Adds a candidate that the source names; a second mention, or one of a relevant document, is counted."""
        if (split, query, document) in self._candidates:
            self.skipped["candidate that was named before"] += 1
        else:
            self._candidates[split, query, document] = score, place

    def finish(self, settings: TaskSettings) -> Collection:
        """The collection, without the queries that nothing was judged for.

        Raises:
            UserError: a judged query or document, or a candidate, is unknown; a split has no relevant document.
        """
        judgements = []
        for (split, query, document), (grade, place) in self._judgements.items():
            self._check(place, query, document)
            judgements.append(Judgement(split, query, document, grade))
        relevant = {pair[:3] for pair in judgements if pair.grade >= settings.relevant_from}
        for split in SPLITS:
            if not any(pair[0] == split for pair in relevant):
                expected = f"one of grade {settings.relevant_from} or more in each of {', '.join(SPLITS)}"
                raise UserError(settings.path or settings.name, f"no relevant document in the {split} split", expected)
        given = []
        for pair, (score, place) in self._candidates.items():
            self._check(place, *pair[1:])
            if pair in relevant:
                self.skipped["candidate that is relevant"] += 1
            else:
                given.append(Given(*pair, score))
        judged = {pair.query_id for pair in judgements}
        queries = {name: text for name, text in self.queries.items() if name in judged}
        if len(queries) < len(self.queries):
            self.skipped["query that nothing is judged for"] += len(self.queries) - len(queries)
        domains = {name: domain for name, (domain, _) in self._domains.items() if domain and name in queries}
        repeated = sum(self.repeated[name] for name in queries)
        return Collection(queries, self.documents, judgements, given, dict(self.skipped), domains, repeated)

    def _check(self, place: object, query: str, document: str) -> None:
        for kind, name, known in (("query", query, self.queries), ("document", document, self.documents)):
            if name not in known:
                _require_id(kind, place, name)
                raise UserError(str(place), f"unknown {kind} {quoted(name)}", f"the id of a {kind}")


def grade(place: object, text: str) -> int:
    """A grade as a file writes it.

    Raises:
        UserError: not a whole number.
    """
    if re.fullmatch("-?[0-9]{1,9}", text) is None:
        raise UserError(str(place), f"grade {quoted(text)}", "a whole number")
    return int(text)


def add(texts: dict[str, str], kind: str, place: object, name: str, text: str) -> None:
    """Adds `text` under its id to `texts`.

    Raises:
        UserError: no id, an empty text, or another one stands there already; `kind` says of what.
    """
    _require_id(kind, place, name)
    if not text or text.isspace():
        raise UserError(str(place), f"empty text of {kind} {name}", "text")
    if texts.setdefault(name, text) != text:
        raise UserError(str(place), f"{kind} {name} a second time, as {quoted(text)}", f"{quoted(texts[name])} again")


def _require_id(kind: str, place: object, name: str) -> None:
    if name.split() != [name]:
        raise UserError(str(place), f"text where an id belongs, {quoted(name)}", f"the id of a {kind}, no white space")
