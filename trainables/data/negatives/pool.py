"""Which documents may be sampled for the queries of a split, and what is known of each of those queries."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from trainables.data.negatives.base import Query
from trainables.data.negatives.candidates import Wanted
from trainables.data.tasks import Collection
from trainables.utils.arrays import Ints


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
        self._texts = texts = dict[str, int]()  # text -> its number
        numbers = np.array([texts.setdefault(collection.documents[name], len(texts)) for name in self.ids])
        self._by_text = np.argsort(numbers, kind="stable")
        self._text_starts = np.searchsorted(numbers[self._by_text], np.arange(len(texts) + 1))

    def texts(self, first: int = 0, count: int | None = None) -> list[str]:
        """The documents' texts."""
        last = None if count is None else first + count
        return [self.collection.documents[name] for name in self.ids[first:last]]

    def wanted(self, split: str, query_ids: Sequence[str], candidates: int, relevant_from: int) -> list[Wanted]:
        """Queries of a split with their relevant documents, best grade first, at most `candidates` - 1, and all that
        must not be sampled: what is relevant to the query in any split, and documents of the same text as those or as
        the query, which are as good an answer."""
        relevant, answers = self._relevant(split, query_ids, relevant_from)
        given = self._given(split, query_ids)
        made = []
        for name in query_ids:
            text = self.collection.queries[name]
            excluded = np.concatenate([self._with_text(same) for same in {text, *answers[name]}])
            places, scores = zip(*given[name], strict=True) if given[name] else ((), ())
            query = Query(name, text, np.array(places, np.int64), np.array(scores, float))
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

    def _with_text(self, text: str) -> Ints:
        """Positions of all documents of this text; there may be none."""
        number = self._texts.get(text)
        found: Ints = self._by_text[:0]
        return found if number is None else self._by_text[self._text_starts[number] : self._text_starts[number + 1]]

    def _relevant(
        self, split: str, query_ids: Sequence[str], relevant_from: int
    ) -> tuple[dict[str, list[int]], dict[str, list[str]]]:
        """By query: positions of what is relevant in the split, best grade first; texts of what is relevant in any."""
        names, own, texts = set(query_ids), defaultdict[str, list[int]](list), defaultdict[str, list[str]](list)
        for judgement in sorted(self.collection.judgements, key=lambda judgement: -judgement.grade):
            if judgement.grade >= relevant_from and judgement.query_id in names:
                texts[judgement.query_id].append(self.collection.documents[judgement.document_id])
                if judgement.split == split:
                    position = self._position[judgement.document_id]
                    if position not in own[judgement.query_id]:
                        own[judgement.query_id].append(position)
        return own, texts

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
