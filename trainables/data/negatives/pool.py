"""Pools of documents that may be sampled for the queries of a split."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from trainables.data.negatives.candidates import QueryToSample
from trainables.data.negatives.negative_sampler import Query
from trainables.data.tasks import SPLITS, IRDataset
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.words import compose_text
from trainables.utils.arrays import Ints


def is_own_document(query_id: str, query: str, document_id: str, document: str) -> bool:
    """Return whether a document is the query itself: it has its text, or its id and its text after a title.

    An id alone does not make it so, since some collections number queries and documents independently.

    Example:
        >>> is_own_document("a1", "Pets are bad.", "a1", "Animals Pets are bad.")
        True
        >>> is_own_document("17", "Are pets bad?", "17", "How to format a disk")
        False
    """
    query, document = compose_text(query), compose_text(document)
    return query == document or (query_id == document_id and query in document)


class DocumentPool:
    """Documents that may be sampled for the queries of a split, in the order of the dataset.

    Args:
        dataset: The task's dataset.
        kind: "judged" for the documents that are judged in train or in the split, "all" for all documents.
        split: Split that candidates are sampled for.
        include_candidates: If True, documents that are only named as candidates in these splits count as judged.
    """

    def __init__(self, dataset: IRDataset, kind: str, split: str, include_candidates: bool) -> None:
        self.dataset = dataset
        self.ids = list(dataset.documents) if kind == "all" else _select_judged(dataset, split, include_candidates)
        self._positions = {name: i for i, name in enumerate(self.ids)}
        self._text_numbers = texts = dict[str, int]()  # composed text -> its number
        composed = (compose_text(dataset.documents[name]) for name in self.ids)
        numbers = np.array([texts.setdefault(text, len(texts)) for text in composed])
        self._by_text = np.argsort(numbers, kind="stable")
        self._text_starts = np.searchsorted(numbers[self._by_text], np.arange(len(texts) + 1))

    def get_texts(self, first: int, count: int) -> list[str]:
        """Return the texts of `count` documents at most, from number `first` on."""
        return [self.dataset.documents[name] for name in self.ids[first : first + count]]

    def prepare_queries(
        self, split: str, query_ids: Sequence[str], settings: RankerTaskSettings
    ) -> list[QueryToSample]:
        """Return the queries of a split with their relevant documents and those that must not be sampled.

        A document must not be sampled if it is relevant to the query in any split, or has a grade that the dataset
        spares. The same holds if its text is that
        of a relevant document, or if it is the query itself (unless the sampler keeps that), since it is then as good
        an answer.

        A training query has all its relevant documents, and the same number of others as every training query. An
        evaluated query has `settings.candidates` documents, at least one that is not relevant; the relevant ones have
        the best grades.
        """
        relevant, answers = self._find_relevant(split, query_ids, settings)
        keep_query_text = settings.sampler.protocol.keep_query_text
        candidates = self._find_candidates(split, query_ids)
        items = []
        for name in query_ids:
            text = self.dataset.queries[name]
            own = self._find_own(name, text)[: 0 if keep_query_text else None]
            excluded = np.concatenate([own, *(self._find_by_text(same) for same in {*answers[name]})])
            query = _make_query(name, text, candidates[name])
            included = np.array(relevant[name], dtype=np.int64)
            n_negatives = settings.n_train_negatives
            if split != "train":
                included = included[: settings.candidates - 1]
                n_negatives = settings.candidates - len(included)
            n_left_out = len(relevant[name]) - len(included)
            items.append(QueryToSample(query, included, n_negatives, np.unique(excluded), n_left_out))
        return items

    def prepare_searches(
        self, split: str, query_ids: Sequence[str], keep_query_text: bool = False
    ) -> list[QueryToSample]:
        """Return the queries of a split for which the pool is searched, with nothing added and nearly nothing excluded.

        The query itself is not retrieved, unless a qrel of the split names it.
        """
        candidates, none = self._find_candidates(split, query_ids), np.empty(0, np.int64)
        judged = {(qrel.query_id, qrel.document_id) for qrel in self.dataset.qrels if qrel.split == split}
        items = []
        for name in query_ids:
            text = self.dataset.queries[name]
            copies = none if keep_query_text else self._find_own(name, text)
            excluded = [position for position in copies.tolist() if (name, self.ids[position]) not in judged]
            query = _make_query(name, text, candidates[name])
            items.append(QueryToSample(query, none, 0, np.array(excluded, np.int64), 0))
        return items

    def get_grades(self, split: str, items: Iterable[QueryToSample]) -> dict[tuple[str, int], int]:
        """Return (query id, position in the pool) -> grade, for all qrels of these queries in the split."""
        names = {item.query.id for item in items}
        return {
            (qrel.query_id, self._positions[qrel.document_id]): qrel.grade
            for qrel in self.dataset.qrels
            if qrel.split == split and qrel.query_id in names
        }

    def _find_by_text(self, text: str) -> Ints:
        """Return the positions of all documents with this text, possibly none."""
        number = self._text_numbers.get(compose_text(text))
        positions: Ints = self._by_text[:0]
        return positions if number is None else self._by_text[self._text_starts[number] : self._text_starts[number + 1]]

    def _find_own(self, name: str, text: str) -> Ints:
        """Return the positions of all documents that are the query itself, see `is_own_document`."""
        found, position = self._find_by_text(text), self._positions.get(name)
        if position is None or not is_own_document(name, text, name, self.dataset.documents[name]):
            return found
        return np.union1d(found, position)

    def _find_relevant(
        self, split: str, query_ids: Sequence[str], settings: RankerTaskSettings
    ) -> tuple[dict[str, list[int]], dict[str, list[str]]]:
        """Return two dictionaries by query id, of documents that are relevant.

        The first contains the positions of those that are relevant in the split, best grade first. The second contains
        the texts of those that are relevant in any split, and of those that the dataset spares.
        """
        names, relevant, texts = set(query_ids), defaultdict[str, list[int]](list), defaultdict[str, list[str]](list)
        smallest = {name: settings.get_relevant_from(name) for name in SPLITS}
        for qrel in sorted(self.dataset.qrels, key=lambda qrel: -qrel.grade):
            is_relevant, spared_from = qrel.grade >= smallest[qrel.split], self.dataset.spared_from
            if qrel.query_id in names and (is_relevant or (spared_from is not None and qrel.grade >= spared_from)):
                texts[qrel.query_id].append(self.dataset.documents[qrel.document_id])
                if is_relevant and qrel.split == split:
                    position = self._positions[qrel.document_id]
                    if position not in relevant[qrel.query_id]:
                        relevant[qrel.query_id].append(position)
        return relevant, texts

    def _find_candidates(self, split: str, query_ids: Sequence[str]) -> dict[str, list[tuple[int, float]]]:
        names, candidates = set(query_ids), defaultdict[str, list[tuple[int, float]]](list)
        for candidate in self.dataset.candidates:
            if candidate.split == split and candidate.query_id in names and candidate.document_id in self._positions:
                candidates[candidate.query_id].append((self._positions[candidate.document_id], candidate.score))
        return candidates


def _make_query(name: str, text: str, candidates: list[tuple[int, float]]) -> Query:
    positions, scores = zip(*candidates, strict=True) if candidates else ((), ())
    return Query(name, text, np.array(positions, np.int64), np.array(scores, float))


def _select_judged(dataset: IRDataset, split: str, include_candidates: bool) -> list[str]:
    splits = ("train", split)
    judged = {qrel.document_id for qrel in dataset.qrels if qrel.split in splits}
    if include_candidates:
        judged |= {candidate.document_id for candidate in dataset.candidates if candidate.split in splits}
    return [name for name in dataset.documents if name in judged]
