"""Datasets of the package ir_datasets (MacAvaney et al. 2021), which downloads them if necessary."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from trainables.utils.errors import UserError, require_package

_T = TypeVar("_T")


def load_dataset(name: str, key: str, required: bool = True) -> Any:
    """Return the dataset of this id.

    Args:
        name: id of the dataset.
        key: key or option that names it, for errors.
        required: whether an unknown id is an error. If False, None is returned.

    Raises:
        UserError: if the package is not installed, or does not know the dataset.
    """
    require_ir_datasets(key)
    import ir_datasets

    try:
        return ir_datasets.load(name)
    except KeyError as error:
        if not required:
            return None
        expected = "irds:ID with an id of https://ir-datasets.com"
        raise UserError(key, f"ir_datasets has no {name!r}", expected) from error


def read_records(name: str, source: Any, kind: str, key: str, convert: Callable[[Any], _T]) -> Iterator[_T]:
    """Yield all converted records of a kind: "docs", "queries" or "qrels".

    Raises:
        UserError: if they cannot be downloaded or read.
    """
    try:
        yield from map(convert, getattr(source, f"{kind}_iter")())
    except Exception as error:  # a download, an archive, a parser or an unusual record may raise anything
        problem = f"{kind} of {name} cannot be read ({type(error).__name__}: {str(error)[:200]})"
        raise UserError(key, problem, "a dataset that ir_datasets can read or download") from error


def parse_text(record: Any) -> tuple[str, str]:
    """Return the id and the text of a query or a document; the text may be empty."""
    return str(record.query_id if hasattr(record, "query_id") else record.doc_id), (record.default_text() or "").strip()


def require_ir_datasets(key: str) -> None:
    """Check that the package is installed."""
    require_package("ir_datasets", key, "pip install ir-datasets")
