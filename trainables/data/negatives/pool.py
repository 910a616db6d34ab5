"""Which documents may be sampled for the queries of a split, and what is known of each of those queries."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from trainables.data.negatives.base import Query
from trainables.data.negatives.candidates import QueryToSample
from trainables.data.tasks import IRDataset
from trainables.utils.arrays import Ints


class DocumentPool:
    """Documents of a collection, in its order.

    Args:
        collection: the task's text.
        kind: "judged": the documents that are judged in train or in the split; "all".
        split: the split whose candidates are sampled.
        given: whether documents that are only named as candidates there count as judged.
    """

    def __init__(self, dataset: IRDataset, kind: str, split: str, include_candidates: bool) -> None:
        self.dataset = dataset
        self.ids = list(dataset.documents) if kind == "all" else _select_judged(dataset, split, include_candidates)
        self._positions = {name: i for i, name in enumerate(self.ids)}
        self._text_numbers = texts = dict[str, int]()  # text -> its number
        numbers = np.array([texts.setdefault(dataset.documents[name], len(texts)) for name in self.ids])
        self._by_text = np.argsort(numbers, kind="stable")
        self._text_starts = np.searchsorted(numbers[self._by_text], np.arange(len(texts) + 1))

    def get_texts(self, first: int = 0, count: int | None = None) -> list[str]:
        """The documents' texts."""
        last = None if count is None else first + count
        return [self.dataset.documents[name] for name in self.ids[first:last]]

    def prepare_queries(
        self, split: str, query_ids: Sequence[str], n_candidates: int, relevant_from: int
    ) -> list[QueryToSample]:
        """Queries of a split with their relevant documents, best grade first, at most `candidates` - 1, and all that
        must not be sampled: what is relevant to the query in any split, and documents of the same text as those or as
        the query, which are as good an answer."""
        relevant, answers = self._find_relevant(split, query_ids, relevant_from)
        candidates = self._find_candidates(split, query_ids)
        items = []
        for name in query_ids:
            text = self.dataset.queries[name]
            excluded = np.concatenate([self._find_by_text(same) for same in {text, *answers[name]}])
            positions, scores = zip(*candidates[name], strict=True) if candidates[name] else ((), ())
            query = Query(name, text, np.array(positions, np.int64), np.array(scores, float))
            own = np.array(relevant[name][: n_candidates - 1], dtype=np.int64)
            items.append(QueryToSample(query, own, np.unique(excluded), len(relevant[name]) - len(own)))
        return items

    def get_grades(self, split: str, items: Iterable[QueryToSample]) -> dict[tuple[str, int], int]:
        """(query id, position) -> grade, of every judgement of these queries in the split."""
        names = {item.query.id for item in items}
        return {
            (qrel.query_id, self._positions[qrel.document_id]): qrel.grade
            for qrel in self.dataset.qrels
            if qrel.split == split and qrel.query_id in names
        }

    def _find_by_text(self, text: str) -> Ints:
        """Positions of all documents of this text; there may be none."""
        number = self._text_numbers.get(text)
        positions: Ints = self._by_text[:0]
        return positions if number is None else self._by_text[self._text_starts[number] : self._text_starts[number + 1]]

    def _find_relevant(
        self, split: str, query_ids: Sequence[str], relevant_from: int
    ) -> tuple[dict[str, list[int]], dict[str, list[str]]]:
        """By query: positions of what is relevant in the split, best grade first; texts of what is relevant in any."""
        names, own, texts = set(query_ids), defaultdict[str, list[int]](list), defaultdict[str, list[str]](list)
        for qrel in sorted(self.dataset.qrels, key=lambda judgement: -judgement.grade):
            if qrel.grade >= relevant_from and qrel.query_id in names:
                texts[qrel.query_id].append(self.dataset.documents[qrel.document_id])
                if qrel.split == split:
                    position = self._positions[qrel.document_id]
                    if position not in own[qrel.query_id]:
                        own[qrel.query_id].append(position)
        return own, texts

    def _find_candidates(self, split: str, query_ids: Sequence[str]) -> dict[str, list[tuple[int, float]]]:
        names, found = set(query_ids), defaultdict[str, list[tuple[int, float]]](list)
        for candidate in self.dataset.candidates:
            if candidate.split == split and candidate.query_id in names and candidate.document_id in self._positions:
                found[candidate.query_id].append((self._positions[candidate.document_id], candidate.score))
        return found


def _select_judged(dataset: IRDataset, split: str, include_candidates: bool) -> list[str]:
    splits = ("train", split)
    judged = {qrel.document_id for qrel in dataset.qrels if qrel.split in splits}
    if include_candidates:
        judged |= {candidate.document_id for candidate in dataset.candidates if candidate.split in splits}
    return [name for name in dataset.documents if name in judged]
