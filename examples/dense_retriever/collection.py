"""The data backend (`trainables.specs.plugin.DataBackend`): a ranking task with all documents of its collection."""

from collections.abc import Iterator
from typing import Any

from trainables.data.ranking_dataset import RankingDataset
from trainables.data.ranking_preparation import find_prepared_data, prepare_data
from trainables.data.tasks import SPLITS, get_task
from trainables.rankers.ranker_data import compute_query_attributes
from trainables.text.text_overlap import check_overlaps, describe_overlap
from trainables.utils.errors import UserError

__all__ = ["compute_query_attributes", "find_prepared_data", "prepare_data"]  # and the functions below


def check_data(study: Any, prepared: RankingDataset) -> None:
    """Raise a UserError if the splits share too many queries, or if a batch is larger than an epoch."""
    allowed = study.task.allowed_overlap
    check_overlaps(prepared.find_overlaps(), get_task(study.task.name).allowed_overlap if allowed is None else allowed)
    n_queries = prepared.read_metadata()["splits"]["train"]["queries"]
    if study.training.batch_size > n_queries:
        expected = f"at most {n_queries}, the number of training queries"
        raise UserError("training.batch_size", study.training.batch_size, expected)


def describe_data(prepared: RankingDataset) -> dict[str, Any]:
    """Return what the report shows of the data; what the first stage found is no ceiling of another system."""
    meta, overlaps = prepared.read_metadata(), prepared.find_overlaps()
    splits = {split: {"queries": counts["queries"]} for split, counts in meta["splits"].items()}
    description = {key: meta[key] for key in ("fingerprint", "documents", "skipped")} | {"splits": splits}
    return description | ({"overlaps": overlaps} if overlaps else {})


def summarize_data(study: Any, prepared: RankingDataset) -> Iterator[str]:
    """Yield the lines of `--prepare`."""
    meta = prepared.read_metadata()
    counts = ", ".join(f"{meta['splits'][split]['queries']:,} {split}" for split in SPLITS)
    yield f"task {study.task.name}, fingerprint {prepared.fingerprint}, {meta['documents']:,} documents"
    yield f"queries: {counts}"
    yield from map(describe_overlap, prepared.find_overlaps())
