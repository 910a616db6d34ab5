"""Which documents may be sampled for the queries of a split, and what is known of each of those queries."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from trainables.data import Collection
from trainables.data.candidates import Wanted
from trainables.data.samplers import Ints, Query


class Pool:
    """Documents of a collection, in its order.

    Args:
        collection: the task's text.
        kind: "judged": the documents that are judged in train or in the split; "all".
        split: the split whose candidates are sampled.
        given: whether documents that are only named as candidates there count as judged.
    """

    def __init__(self, collection: Collection, kind: str, split: str, given: bool) -> None:
        self.collection = collection
        self.ids = list(collection.documents) if kind == "all" else _judged(collection, split, given)
        self._position = {name: i for i, name in enumerate(self.ids)}
        numbers: dict[str, int] = {}
        self._first_of = {collection.documents[name]: i for i, name in reversed(list(enumerate(self.ids)))}
        same = np.array([numbers.setdefault(collection.documents[name], len(numbers)) for name in self.ids])
        self._same_text = same
        self._by_text = np.argsort(same, kind="stable")
        self._text_starts = np.searchsorted(same[self._by_text], np.arange(len(numbers) + 1))

    def texts(self, first: int = 0, count: int | None = None) -> list[str]:
        """The documents' texts."""
        last = None if count is None else first + count
        return [self.collection.documents[name] for name in self.ids[first:last]]

    def wanted(self, split: str, query_ids: Sequence[str], candidates: int, relevant_from: int) -> list[Wanted]:
        """Queries of a split with their relevant documents, best grade first, at most `candidates` - 1, and all that
        must not be sampled: what is relevant to the query in any split, and documents of the same text as those or as
        the query, which are as good an answer."""
        relevant, anywhere = self._relevant(split, query_ids, relevant_from)
        given = self._given(split, query_ids)
        made = []
        for name in query_ids:
            excluded = np.concatenate([self._of_same_text(p) for p in [*anywhere[name], *self._same_as(name)]])
            places, scores = zip(*given[name], strict=True) if given[name] else ((), ())
            query = Query(name, self.collection.queries[name], np.array(places, np.int64), np.array(scores, float))
            own = np.array(relevant[name][: candidates - 1], dtype=np.int64)
            made.append(Wanted(query, own, np.unique(excluded), len(relevant[name]) - len(own)))
        return made

    def grades(self, split: str, wanted: Iterable[Wanted]) -> dict[tuple[str, int], int]:
        """(query id, position) -> grade, of every judgement of these queries in the split."""
        names = {one.query.id for one in wanted}
        return {
            (j.query_id, self._position[j.document_id]): j.grade
            for j in self.collection.judgements
            if j.split == split and j.query_id in names
        }

    def _same_as(self, query_id: str) -> list[int]:
        """A document whose text is the query's, if there is one."""
        place = self._first_of.get(self.collection.queries[query_id])
        return [] if place is None else [place]

    def _of_same_text(self, position: int) -> Ints:
        number = self._same_text[position]
        found: Ints = self._by_text[self._text_starts[number] : self._text_starts[number + 1]]
        return found

    def _relevant(self, split: str, query_ids: Sequence[str], relevant_from: int) -> tuple[dict[str, list[int]], ...]:
        """Positions by query: of what is relevant in the split, best grade first, and of what is in any."""
        names, own, anywhere = set(query_ids), defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
        for judgement in sorted(self.collection.judgements, key=lambda judgement: -judgement.grade):
            position = self._position.get(judgement.document_id)
            if judgement.grade >= relevant_from and judgement.query_id in names and position is not None:
                anywhere[judgement.query_id].append(position)
                if judgement.split == split and position not in own[judgement.query_id]:
                    own[judgement.query_id].append(position)
        return own, anywhere

    def _given(self, split: str, query_ids: Sequence[str]) -> dict[str, list[tuple[int, float]]]:
        names, found = set(query_ids), defaultdict[str, list[tuple[int, float]]](list)
        for given in self.collection.given:
            if given.split == split and given.query_id in names and given.document_id in self._position:
                found[given.query_id].append((self._position[given.document_id], given.score))
        return found


def _judged(collection: Collection, split: str, given: bool) -> list[str]:
    splits = ("train", split)
    judged = {judgement.document_id for judgement in collection.judgements if judgement.split in splits}
    if given:
        judged |= {given.document_id for given in collection.given if given.split in splits}
    return [name for name in collection.documents if name in judged]
