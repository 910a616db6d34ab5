"""Word vectors for sigma_SM, from a file that the user names or from the model's input embeddings.

Penha and Hauff (2020), section 4, use fastText vectors of 300 dimensions, trained on Common Crawl.
"""

import gzip
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from trainables.utils.arrays import Bools, Floats
from trainables.utils.errors import UserError

WordVectors = Callable[[Sequence[str]], tuple[Floats, Bools]]
"""Words -> their vectors (words, dimension), and which words have one (words,). The rows of the others are 0.

A word is looked up as it is written, then lower-cased.
"""

VECTORS_KEY = "curriculum.vectors"
_GZIP = ".gz"
_FORMATS = "word vectors as text (.vec or .txt), maybe gzipped (.gz)"
_MAX_PIECES = 512
"""Most word pieces of a word. Further pieces are ignored."""


def hash_vectors_file(path: Path) -> str:
    """Return the digest of a file: "sha256:" and 16 hexadecimal digits, as for models.

    Raises:
        UserError: If the file cannot be read.
    """
    with _convert_errors(path), path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()[:16]}"


def load_vectors_from_file(path: Path) -> WordVectors:
    """Load the word vectors of a file, which is a text of fastText or word2vec.

    The file is read completely at each call of the result.

    Args:
        path: The file. Its name ends with .vec or .txt, and with .gz if it is gzipped.

    Raises:
        UserError: If the file is missing, damaged or of another form, or if it contains a number that is not finite.
            Some of these errors are raised only when words are looked up.
    """
    with _convert_errors(path):
        if not path.name.removesuffix(_GZIP).endswith((".vec", ".txt")):
            raise ValueError(f"unknown file type {path.suffix}")
        with _open_stream(path) as stream:
            count, dimension = map(int, stream.readline().split())
        if count < 1 or dimension < 1:
            raise ValueError(f"{count} words of {dimension} numbers")

    def look_up(words: Sequence[str]) -> tuple[Floats, Bools]:
        values, known = np.zeros((len(words), dimension)), np.zeros(len(words), dtype=bool)
        with _convert_errors(path):
            rows = _read_rows(path, count, dimension, {form for word in words for form in (word, word.lower())})
            for i, word in enumerate(words):
                row = rows[word] if word in rows else rows.get(word.lower())
                if row is not None:
                    values[i], known[i] = row, True
            if not np.isfinite(values).all():
                raise ValueError("a number that is not finite")
        return values, known

    return look_up


def _read_rows(path: Path, count: int, dimension: int, words: set[str]) -> dict[str, Floats]:
    """Return the vectors of the words that a file contains, as they are written."""
    by_bytes, vectors, lines = {word.encode(): word for word in words}, dict[str, Floats](), 0
    with _open_stream(path) as stream:
        next(stream)
        for lines, line in enumerate(stream, 1):
            name, _, numbers = line.rstrip().partition(b" ")
            if (numbers.count(b" ") + 1 if numbers else 0) != dimension:
                raise ValueError(f"word {lines} does not have {dimension} numbers")
            word = by_bytes.get(name)
            if word is not None and word not in vectors:
                vectors[word] = np.array([float(number) for number in numbers.split(b" ")])
    if lines != count:
        raise ValueError(f"{lines} words instead of {count}")
    return vectors


def average_rows(groups: Sequence[Sequence[int]], rows: Floats) -> Floats:
    """Return the mean row of each group.

    Returns:
        Means of shape (groups, dimension). The mean of an empty group is 0.

    Example:
        >>> average_rows([[0, 1], []], np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [[2.0, 3.0], [0.0, 0.0]]
    """
    counts = np.array([len(group) for group in groups], dtype=np.int64)
    members = np.array([number for group in groups for number in group], dtype=np.int64)
    ends = np.concatenate([[0], np.cumsum(counts)])
    sums: Floats = sp.csr_array((np.ones(len(members)), members, ends), shape=(len(groups), len(rows))) @ rows
    return sums / np.maximum(counts, 1)[:, None]


@contextmanager
def _convert_errors(path: Path) -> Iterator[None]:
    """Convert every exception to a UserError, because a damaged file can raise anything."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(VECTORS_KEY, f"{path} cannot be read ({type(error).__name__}: {error})", _FORMATS) from error


def _open_stream(path: Path) -> IO[bytes] | gzip.GzipFile:
    return gzip.open(path) if path.suffix == _GZIP else path.open("rb")


def load_vectors_from_model(folder: Path) -> WordVectors:
    """Load word vectors from the input embeddings of a model.

    The vector of a word is the mean of the embeddings of its word pieces. Pieces that the tokenizer does not know are
    left out.

    Raises:
        UserError: If the model's file does not contain exactly one tensor of such embeddings.
    """
    from safetensors import safe_open

    from trainables.models.pretrained import load_tokenizer, read_architecture

    tensor = f"{read_architecture(folder).word_embeddings}.weight"
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        names = [name for name in file.keys() if name.endswith(tensor)]  # noqa: SIM118
        if len(names) != 1:
            expected = "one, or a file of word vectors as curriculum.vectors"
            raise UserError("model.name", f"{len(names)} tensors {tensor}", expected)
        embeddings = file.get_tensor(names[0])  # (pieces, dimension)
    word_tokenizer = load_tokenizer(folder)

    def tokenize_words(words: Sequence[str]) -> list[list[int]]:
        if not words:
            return []
        texts = [f" {word}" for word in words]  # some tokenizers mark the start of a word by the space before it
        ids = word_tokenizer(texts, add_special_tokens=False, truncation=True, max_length=_MAX_PIECES)["input_ids"]
        return [[i for i in pieces if i != word_tokenizer.unk_token_id and i < len(embeddings)] for pieces in ids]

    def look_up(words: Sequence[str]) -> tuple[Floats, Bools]:
        ids = tokenize_words(words)
        missing = [number for number, pieces in enumerate(ids) if not pieces]
        lowered = tokenize_words([words[number].lower() for number in missing])
        for number, pieces in zip(missing, lowered, strict=True):
            ids[number] = pieces
        used = sorted({i for pieces in ids for i in pieces})
        rows = {i: row for row, i in enumerate(used)}
        values = average_rows([[rows[i] for i in pieces] for pieces in ids], embeddings[used].double().numpy())
        return values, np.array([len(pieces) > 0 for pieces in ids], dtype=bool)

    return look_up
