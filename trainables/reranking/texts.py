"""Reads queries and documents one after another from files, a BEIR folder, or a dataset of ir_datasets.

- TSV: `id`, a tab and `text` a line, without header and without quoting.
- JSON lines, for a name that ends in `.jsonl` or `.jsonl.gz`: objects with `_id` or `id`, `text`, and optionally
  `title`, which is put before the text.
- A folder in the layout of BEIR: its `queries.jsonl` or `corpus.jsonl`.
- `irds:ID`: a dataset of the package ir_datasets, which downloads it if necessary.

Files may be plain or gzipped.
"""

from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple

from trainables.data.files import readers
from trainables.data.files.ir_datasets_reader import load_dataset, parse_text, read_records
from trainables.utils.checksums import hash_file
from trainables.utils.errors import UserError

Kind = Literal["queries", "documents"]

_BEIR_FILES = {"queries": "queries.jsonl", "documents": "corpus.jsonl"}
_EXPECTED = "a TSV or JSON lines file, a BEIR folder, or irds:ID"
_JSON_SUFFIXES = (".jsonl", ".jsonl.gz")
_IRDS = "irds:"


class Text(NamedTuple):
    """A query or a document.

    Attributes:
        location: where it was read, for error messages.
        text: its text, which may be empty.
    """

    location: object
    id: str
    text: str


class TextSource(NamedTuple):
    """Queries or documents that can be read several times.

    Attributes:
        name: name of the source, for error messages.
        read: yields all texts; raises a `UserError` that names the line of a mistake.
        compute_digest: returns a digest of everything that `read` depends on.
    """

    name: str
    read: Callable[[], Iterator[Text]]
    compute_digest: Callable[[], str]

    def change_texts(self, change: Callable[[str], str]) -> "TextSource":
        """Return a source of the same texts, each changed by a function that always does the same."""
        return self._replace(read=lambda: (text._replace(text=change(text.text)) for text in self.read()))


def open_texts(source: str, kind: Kind) -> TextSource:
    """Return the source that a command line names; nothing is read yet.

    Args:
        source: file, BEIR folder or `irds:ID`.
        kind: "queries" or "documents"; also the name of the option in error messages.

    Raises:
        UserError: if there is no such file, or the folder is not a BEIR folder, or ir_datasets is not installed or has
            no such dataset.
    """
    option = f"--{kind}"
    if source.startswith(_IRDS):
        return _open_dataset(source, kind, option)
    path = Path(source).expanduser()
    if path.is_dir():
        names = [_BEIR_FILES[kind], f"{_BEIR_FILES[kind]}.gz"]
        found = [path / name for name in names if (path / name).is_file()]
        if not found:
            raise UserError(option, f"{path} has no {names[0]}", "a folder in the layout of BEIR")
        path = found[0]
    elif not path.is_file():  # a pipe cannot be read twice
        raise UserError(option, f"{path} {'is no regular file' if path.exists() else 'does not exist'}", _EXPECTED)
    read = _read_json_lines if path.name.endswith(_JSON_SUFFIXES) else _read_table
    return TextSource(str(path), lambda: read(path), lambda: hash_file(path))


def _read_table(path: Path) -> Iterator[Text]:
    for location, (identity, text) in readers.read_rows(path, ("id", "text")):
        yield _check_id(Text(location, identity, text))


def _read_json_lines(path: Path) -> Iterator[Text]:
    for location, value in readers.read_json_lines(path):
        identity = readers.get_member(location, value, "id" if "id" in value and "_id" not in value else "_id", str)
        yield _check_id(Text(location, identity, readers.get_titled_text(location, value)))


def _check_id(text: Text) -> Text:
    if not text.id:
        raise UserError(str(text.location), "an empty id", "an id")
    return text


def _open_dataset(source: str, kind: Kind, option: str) -> TextSource:
    name, records = source.removeprefix(_IRDS), {"queries": "queries", "documents": "docs"}[kind]
    dataset = load_dataset(name, option)
    if not dataset.has(records):
        raise UserError(option, f"{source} has no {kind}", f"a dataset with {kind}")
    digest = f"{source} {version('ir_datasets')}"  # a version contains the digests of the files that it downloads

    def convert(record: object) -> Text:
        return Text(source, *parse_text(record))

    return TextSource(source, lambda: read_records(name, dataset, records, option, convert), lambda: digest)
