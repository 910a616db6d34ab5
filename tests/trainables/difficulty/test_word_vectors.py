"""Files of word vectors, whole and damaged."""

import gzip
import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from trainables.difficulty.word_vectors import average_rows, hash_vectors_file, load_vectors_from_file
from trainables.utils.errors import UserError

WORDS = ["the", "The", "disk", "größe", "don't"]
ASKED = ["disk", "DISK", "The", "THE", "nobody", "größe", "Größe", "Nobody"]
FOUND = ["disk", "disk", "The", "the", None, "größe", "größe", None]
FILES = ["a.vec", "a.txt", "a.vec.gz", "a.txt.gz"]


VECTORS = dict(zip(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 7)), strict=True))


def write(path: Path) -> Path:
    """Write the vectors as gensim does."""
    lines = [f"{len(WORDS)} 7", *(" ".join([word, *map(repr, row.tolist())]) for word, row in VECTORS.items())]
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as error:
        load_vectors_from_file(path)(["the", "disk"])
    assert str(error.value).startswith(f"curriculum.vectors: {path} cannot be read (")
    assert str(error.value).endswith("; expected word vectors as text (.vec or .txt), maybe gzipped (.gz)")
    return str(error.value)


@pytest.mark.parametrize("name", FILES)
def test_words_of_a_file_are_looked_up_as_written_then_lower_cased(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name)
    values, known = load_vectors_from_file(path)(ASKED)
    assert known.tolist() == [word is not None for word in FOUND]
    expected = [np.zeros(7) if word is None else VECTORS[word] for word in FOUND]
    np.testing.assert_array_equal(values, expected)
    assert values.dtype == np.float64
    assert [part.shape for part in load_vectors_from_file(path)([])] == [(0, 7), (0,)]


@pytest.mark.parametrize("name", ["a.vec", "a.txt.gz"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_file_that_was_cut_is_an_error(tmp_path: Path, name: str, share: float) -> None:
    path = write(tmp_path / name)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    refusal(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.vec", b"the 0.1 0.2\n", "(ValueError: "),
        ("a.vec", b"2 2\nthe 0.1 0.2\ndisk 0.3\n", "(ValueError: word 2 does not have 2 numbers)"),
        ("a.vec", b"1 2\nthe 0.1 0.2\ndisk 0.1 0.2\n", "(ValueError: 2 words instead of 1)"),
        ("a.vec", b"1 2\nthe 0.1 nan\n", "(ValueError: a number that is not finite)"),
        ("a.vec", b"0 2\n", "(ValueError: 0 words of 2 numbers)"),
        ("a.vec.gz", b"1 2\nthe 0.1 0.2\n", "(BadGzipFile: "),
        ("a.bin", b"", "(ValueError: unknown file type .bin)"),
    ],
)
def test_what_is_no_file_of_vectors_is_an_error(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert f"cannot be read {message}" in refusal(tmp_path / name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "(FileNotFoundError: " in refusal(tmp_path / "no.vec")
    with pytest.raises(UserError, match=rf"^curriculum\.vectors: {tmp_path}/no.vec cannot be read \(FileNotFoundErr"):
        hash_vectors_file(tmp_path / "no.vec")


def test_of_a_text_only_the_words_asked_for_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"4 2\r\nthe 1 2 \r\nno x y\r\nthe 5 6\r\nd\xc3 3 4e-1\r\n")
    values, known = load_vectors_from_file(tmp_path / "a.txt")(["disk", "The"])
    assert known.tolist() == [False, True]
    assert values.tolist() == [[0.0, 0.0], [1.0, 2.0]]


def test_a_digest_is_of_the_content_alone(tmp_path: Path) -> None:
    (tmp_path / "a.vec").write_bytes(b"1 1\nthe 0.5\n")
    shutil.copy(tmp_path / "a.vec", tmp_path / "b.txt")
    expected = "sha256:" + hashlib.sha256(b"1 1\nthe 0.5\n").hexdigest()[:16]
    assert hash_vectors_file(tmp_path / "a.vec") == hash_vectors_file(tmp_path / "b.txt") == expected
    (tmp_path / "b.txt").write_bytes(gzip.compress(b"1 1\nthe 0.5\n", mtime=0))
    assert hash_vectors_file(tmp_path / "b.txt") != expected


def test_means_by_hand() -> None:
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]])
    assert average_rows([[0, 1], [], [2], [1, 1, 0]], rows).tolist() == [[2, 3], [0, 0], [5, 9], [7 / 3, 10 / 3]]
    assert average_rows([], rows).shape == (0, 2)
