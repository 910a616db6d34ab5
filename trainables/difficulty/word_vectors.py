"""Word vectors of sigma_SM: those of a file that the user names, else the model's input embeddings.

The paper's are fastText's of 300 dimensions, trained on Common Crawl (Penha and Hauff 2020, section 4).
"""

import gzip
import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import scipy.sparse as sp

from trainables.utils.arrays import Bools, Floats
from trainables.utils.errors import UserError

WordVectors = Callable[[Sequence[str]], tuple[Floats, Bools]]
"""Words -> their vectors, (words, dimension), and which words have one, (words,); the others' rows are 0.

A word is looked up as it is written, then lower-cased.
"""

VECTORS_KEY = "curriculum.vectors"
FASTTEXT = struct.pack("<i", 793712314)
"""What fastText's own models begin with."""
_TEXT, _BINARY, _GZIP = (".vec", ".txt"), ".bin", ".gz"
_FORMATS = "word vectors: text (.vec or .txt), word2vec's binary (.bin), either also as .gz, or fastText's own (.bin)"


_EMBEDDINGS = "embeddings.word_embeddings.weight"
_MAX_PIECES = 512
"""Word pieces of a word; of a longer one the first count."""


class _VectorFile(NamedTuple):
    dimension: int
    look_up_rows: Callable[[set[str]], dict[str, Floats]]
    """Words -> vectors of those that stand there, as they are written."""
    infer_vector: Callable[[str], Floats | None]
    """The vector of a word that does not."""


def hash_vectors_file(path: Path) -> str:
    """ "sha256:" and 16 hexadecimal digits over the file's content, as models have them.

    Raises:
        UserError: it cannot be read.
    """
    with _convert_errors(path), path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()[:16]}"


def load_vectors_from_file(path: Path) -> WordVectors:
    """Those of a file: fastText's or word2vec's text, word2vec's binary form, or fastText's own binary model, which
    makes the vector of an unknown word of its parts. A text is read through at each call, a binary file once and whole
    into memory.

    Raises:
        UserError: at once or at a call: the file is missing, damaged, of another form, or holds what is not finite;
            it is binary, and gensim is not installed.
    """
    with _convert_errors(path):
        name = path.name.removesuffix(_GZIP)
        if not name.endswith((*_TEXT, _BINARY)):
            raise ValueError(f"a file {path.suffix}")
        file = _load_binary_vectors(path) if name.endswith(_BINARY) else _open_text_vectors(path)

    def look_up(words: Sequence[str]) -> tuple[Floats, Bools]:
        values, known = np.zeros((len(words), file.dimension)), np.zeros(len(words), dtype=bool)
        with _convert_errors(path):
            rows = file.look_up_rows({form for word in words for form in (word, word.lower())})
            for place, word in enumerate(words):
                row = rows[word] if word in rows else rows.get(word.lower())
                row = file.infer_vector(word) if row is None else row
                if row is not None:
                    values[place], known[place] = row, True
            if not np.isfinite(values).all():
                raise ValueError("a number that is not finite")
        return values, known

    return look_up


def average_rows(groups: Sequence[Sequence[int]], rows: Floats) -> Floats:
    """(groups, dimension) the mean of those of `rows` (rows, dimension) whose numbers a group lists; of none, 0."""
    counts = np.array([len(group) for group in groups], dtype=np.int64)
    members = np.array([number for group in groups for number in group], dtype=np.int64)
    ends = np.concatenate([[0], np.cumsum(counts)])
    sums: Floats = sp.csr_array((np.ones(len(members)), members, ends), shape=(len(groups), len(rows))) @ rows
    return sums / np.maximum(counts, 1)[:, None]


@contextmanager
def _convert_errors(path: Path) -> Iterator[None]:
    """Makes a UserError of what goes wrong, which with a damaged file can be anything."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(VECTORS_KEY, f"{path} cannot be read ({type(error).__name__}: {error})", _FORMATS) from error


def _open_stream(path: Path) -> IO[bytes] | gzip.GzipFile:
    return gzip.open(path) if path.suffix == _GZIP else path.open("rb")


def _open_text_vectors(path: Path) -> _VectorFile:
    """Read here and not by gensim, which takes a quarter of an hour for a million words, whichever are wanted."""
    with _open_stream(path) as stream:
        count, dimension = map(int, stream.readline().split())
    if count < 1 or dimension < 1:
        raise ValueError(f"{count} words of {dimension} numbers")

    def look_up_rows(words: set[str]) -> dict[str, Floats]:
        wanted, vectors, lines = {word.encode(): word for word in words}, dict[str, Floats](), 0
        with _open_stream(path) as stream:
            next(stream)
            for lines, line in enumerate(stream, 1):
                name, _, numbers = line.rstrip().partition(b" ")
                if (numbers.count(b" ") + 1 if numbers else 0) != dimension:
                    raise ValueError(f"word {lines} has not {dimension} numbers")
                word = wanted.get(name)
                if word is not None and word not in vectors:
                    vectors[word] = np.array([float(number) for number in numbers.split(b" ")])
        if lines != count:
            raise ValueError(f"{lines} words, not {count}")
        return vectors

    return _VectorFile(dimension, look_up_rows, lambda word: None)


def _load_binary_vectors(path: Path) -> _VectorFile:
    try:
        from gensim.models.fasttext import load_facebook_vectors
        from gensim.models.keyedvectors import KeyedVectors
    except ImportError as error:
        raise UserError(
            VECTORS_KEY, "gensim, which reads binary files, is not installed", "`pip install gensim`"
        ) from error
    with _open_stream(path) as stream:
        fasttext = stream.read(len(FASTTEXT)) == FASTTEXT
    if fasttext and path.suffix == _GZIP:
        raise ValueError("fastText's own, gzipped")
    if fasttext:
        table = load_facebook_vectors(str(path))
    else:  # word2vec cuts a long word, perhaps within a character
        table = KeyedVectors.load_word2vec_format(str(path), binary=True, unicode_errors="replace")
    has_subwords = fasttext and table.bucket > 0

    def infer_vector(word: str) -> Floats | None:
        marked = len(word) + 2  # with "<" before and ">" behind it
        return table.get_vector(word) if has_subwords and marked >= table.min_n else None

    def look_up_rows(words: set[str]) -> dict[str, Floats]:
        return {word: table.vectors[table.key_to_index[word]] for word in words if word in table.key_to_index}

    return _VectorFile(table.vector_size, look_up_rows, infer_vector)


def load_vectors_from_model(folder: Path) -> WordVectors:
    """The input embeddings of a model: a word's vector is the mean of those of its word pieces.

    Pieces that the tokenizer does not know are left out.

    Raises:
        UserError: the model's file has no such embeddings.
    """
    from safetensors import safe_open

    from trainables.models.tokenizer import load_tokenizer

    with safe_open(folder / "model.safetensors", framework="pt") as file:
        names = [name for name in file.keys() if name.endswith(_EMBEDDINGS)]  # noqa: SIM118
        if len(names) != 1:
            expected = "one, or a file of word vectors as curriculum.vectors"
            raise UserError("model.name", f"{len(names)} tensors {_EMBEDDINGS}", expected)
        embeddings = file.get_tensor(names[0])  # (pieces, dimension)
    word_tokenizer = load_tokenizer(folder)

    def tokenize_words(words: Sequence[str]) -> list[list[int]]:
        if not words:
            return []
        texts = [f" {word}" for word in words]  # some tokenizers tell the beginning of a word by the space before it
        ids = word_tokenizer(texts, add_special_tokens=False, truncation=True, max_length=_MAX_PIECES)["input_ids"]
        return [[i for i in own if i != word_tokenizer.unk_token_id and i < len(embeddings)] for own in ids]

    def look_up(words: Sequence[str]) -> tuple[Floats, Bools]:
        found = tokenize_words(words)
        missing = [place for place, own in enumerate(found) if not own]
        for place, own in zip(missing, tokenize_words([words[place].lower() for place in missing]), strict=True):
            found[place] = own
        used = sorted({i for own in found for i in own})
        numbers = {i: number for number, i in enumerate(used)}
        values = average_rows([[numbers[i] for i in own] for own in found], embeddings[used].double().numpy())
        return values, np.array([len(own) > 0 for own in found], dtype=bool)

    return look_up
