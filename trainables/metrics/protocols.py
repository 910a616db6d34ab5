"""Descriptions of the two evaluation protocols, for the reader of every metric of rankings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

RERANKING_NOTE = (
    "The candidates of every query contain its relevant documents: these figures are of re-ranking such candidates, "
    "and cannot be compared with figures of retrieval from a whole collection."
)
"""Note on sampled candidates."""
_RETRIEVED_SPLITS = ("dev", "test")


@dataclass(frozen=True)
class FirstStage:
    """First stage, which retrieved the candidates of dev and test queries."""

    source: str
    """The candidates in words, as in "the first 100 documents of bm25 over the whole collection"."""
    depth: int
    """Largest number of candidates of a query."""


def describe_retrieval(stage: FirstStage, splits: Mapping[str, Mapping[str, Any]]) -> str:
    """Describe candidates that a first stage retrieved, and what no re-ranking of them can exceed.

    Args:
        stage: The first stage.
        splits: Split -> counts of the prepared data, with recall, judged, queries, queries_missed and
            queries_absent and queries_without_relevant (0 if they are not there).

    Example:
        >>> counts = {"recall": 0.9125, "judged": 0.05, "queries": 300, "queries_missed": 12, "queries_absent": 0}
        >>> text = describe_retrieval(FirstStage("the first 50 of a run", 50), {"dev": counts, "test": counts})
        >>> text.split(". ")[1]
        'Their recall, R@50, is 0.9125 on dev and 0.9125 on test: no re-ranking of them can have a higher recall'
    """
    known = {split: splits[split] for split in _RETRIEVED_SPLITS if "recall" in splits.get(split, {})}
    parts = [
        f"The candidates of a query are {stage.source}, and no relevant document was added: these figures are of "
        "retrieval and re-ranking, and count relevant documents that the first stage missed"
    ]
    if known:
        recalls = " and ".join(f"{counts['recall']:.4f} on {split}" for split, counts in known.items())
        parts.append(f"Their recall, R@{stage.depth}, is {recalls}: no re-ranking of them can have a higher recall")
        missed = " and ".join(
            f"{counts['queries_missed']:,} of {counts['queries']:,} {split} queries" for split, counts in known.items()
        )
        judged = " and ".join(f"{100 * counts['judged']:.1f} % on {split}" for split, counts in known.items())
        parts.append(f"{missed} have no relevant candidate")
        absent = {split: counts.get("queries_absent", 0) for split, counts in known.items()}
        if any(absent.values()):
            numbers = " and ".join(f"{count:,} of {split}" for split, count in absent.items() if count)
            parts.append(f"Queries without any candidate also count, with the lowest value: {numbers}")
        irrelevant = {split: counts.get("queries_without_relevant", 0) for split, counts in known.items()}
        if any(irrelevant.values()):
            numbers = " and ".join(f"{count:,} of {split}" for split, count in irrelevant.items() if count)
            parts.append(f"Judged queries without any relevant document also count, as in trec_eval: {numbers}")
        parts.append(f"Candidates without a judgement count as not relevant; judged are {judged}")
    return ". ".join(parts) + "."
