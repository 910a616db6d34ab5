"""Files as gensim writes them, whole and damaged."""

import gzip
import hashlib
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainables.difficulty.word_vectors import FASTTEXT, average_rows, hash_vectors_file, load_vectors_from_file
from trainables.utils.errors import UserError

WORDS = ["the", "The", "disk", "größe", "don't"]
ASKED = ["disk", "DISK", "The", "THE", "nobody", "größe", "Größe", "Nobody"]
FOUND = ["disk", "disk", "The", "the", None, "größe", "größe", None]
FILES = ["a.vec", "a.txt", "a.vec.gz", "a.txt.gz", "a.bin", "a.bin.gz"]


@pytest.fixture(scope="module")
def table() -> Any:
    gensim = pytest.importorskip("gensim")
    made = gensim.models.KeyedVectors(vector_size=7)
    made.add_vectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 7)).astype(np.float32))
    return made


@pytest.fixture(scope="module")
def fasttext() -> Any:
    gensim = pytest.importorskip("gensim")
    texts = [["format", "the", "disk", "now"], ["mount", "the", "Disk", "again"]] * 3
    return gensim.models.FastText(texts, vector_size=6, min_count=1, min_n=3, max_n=5, bucket=50, epochs=1, workers=1)


def write(table: Any, path: Path) -> Path:
    table.save_word2vec_format(str(path), binary=".bin" in path.name)
    return path


def write_fasttext(model: Any, path: Path) -> Path:
    from gensim.models.fasttext import save_facebook_model

    save_facebook_model(model, str(path))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as error:
        load_vectors_from_file(path)(["the", "disk"])
    assert str(error.value).startswith(f"curriculum.vectors: {path} cannot be read (")
    assert str(error.value).endswith(
        "; expected word vectors: text (.vec or .txt), word2vec's binary (.bin), "
        "either also as .gz, or fastText's own (.bin)"
    )
    return str(error.value)


@pytest.mark.parametrize("name", FILES)
def test_words_of_a_file_are_looked_up_as_written_then_lower_cased(table: Any, tmp_path: Path, name: str) -> None:
    path = write(table, tmp_path / name)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    values, known = load_vectors_from_file(path)(ASKED)
    assert known.tolist() == [word is not None for word in FOUND]
    expected = [np.zeros(7) if word is None else table[word] for word in FOUND]
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    assert values.dtype == np.float64
    assert [part.shape for part in load_vectors_from_file(path)([])] == [(0, 7), (0,)]


def test_fasttexts_own_model_makes_unknown_words_of_their_parts(fasttext: Any, tmp_path: Path) -> None:
    path = write_fasttext(fasttext, tmp_path / "model.bin")
    assert path.read_bytes()[:4] == FASTTEXT
    asked = ["disk", "Disk", "DISK", "THE", "Formatting", "x"]
    values, known = load_vectors_from_file(path)(asked)
    assert known.tolist() == [True] * 6
    expected = [fasttext.wv[word] for word in ("disk", "Disk", "disk", "the", "Formatting", "x")]
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-8)
    assert np.any(values[4] != 0)


def test_a_fasttext_word_too_short_for_parts_and_a_model_without_parts_know_only_their_words(tmp_path: Path) -> None:
    gensim = pytest.importorskip("gensim")
    texts = [["format", "the", "disk"], ["mount", "the", "disk"]]
    for changes, known in (({"min_n": 4, "max_n": 6}, [True, False, True]), ({"max_n": 0}, [True, False, False])):
        settings = {"vector_size": 4, "min_count": 1, "bucket": 20, "epochs": 1, "workers": 1}
        path = write_fasttext(gensim.models.FastText(texts, **settings, **changes), tmp_path / "m.bin")
        values, found = load_vectors_from_file(path)(["disk", "x", "formats"])
        assert found.tolist() == known
        assert (np.abs(values).sum(axis=1) > 0).tolist() == known


@pytest.mark.parametrize("name", ["a.bin", "a.bin.gz", "a.vec", "a.txt.gz", "model.bin"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_file_that_was_cut_is_refused(table: Any, fasttext: Any, tmp_path: Path, name: str, share: float) -> None:
    path = tmp_path / name
    write_fasttext(fasttext, path) if name == "model.bin" else write(table, path)
    whole = path.read_bytes()
    # fastText's second half are weights of training, which are not read
    path.write_bytes(whole[: int(len(whole) * share * (0.5 if name == "model.bin" else 1))])
    refusal(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.vec", b"the 0.1 0.2\n", "(ValueError: "),
        ("a.vec", b"2 2\nthe 0.1 0.2\ndisk 0.3\n", "(ValueError: word 2 does not have 2 numbers)"),
        ("a.vec", b"1 2\nthe 0.1 0.2\ndisk 0.1 0.2\n", "(ValueError: 2 words instead of 1)"),
        ("a.vec", b"1 2\nthe 0.1 nan\n", "(ValueError: a number that is not finite)"),
        ("a.vec", b"0 2\n", "(ValueError: 0 words of 2 numbers)"),
        ("a.bin", b"1 1\nthe " + struct.pack("<f", float("inf")), "(ValueError: a number that is not finite)"),
        ("a.bin", b"99999999999999 300\nthe", "("),
        ("a.bin", FASTTEXT + b"\x0c" + b"\0" * 40, "("),
        ("a.bin.gz", gzip.compress(FASTTEXT, mtime=0), "(ValueError: a gzipped fastText model)"),
        ("a.vec.gz", b"1 2\nthe 0.1 0.2\n", "(BadGzipFile: "),
        ("a.npy", b"", "(ValueError: unknown file type .npy)"),
    ],
)
def test_what_is_no_file_of_vectors_is_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    if ".bin" in name:
        pytest.importorskip("gensim")
    (tmp_path / name).write_bytes(content)
    assert f"cannot be read {message}" in refusal(tmp_path / name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "(FileNotFoundError: " in refusal(tmp_path / "no.vec")
    with pytest.raises(UserError, match=rf"^curriculum\.vectors: {tmp_path}/no.vec cannot be read \(FileNotFoundErr"):
        hash_vectors_file(tmp_path / "no.vec")


def test_a_word_that_was_cut_within_a_character_is_no_mistake(tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    (tmp_path / "a.bin").write_bytes(b"2 1\ndis\xc3 " + struct.pack("<f", 1.0) + b"the " + struct.pack("<f", 2.0))
    assert load_vectors_from_file(tmp_path / "a.bin")(["the"])[0].tolist() == [[2.0]]


def test_of_a_text_only_the_words_asked_for_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"4 2\r\nthe 1 2 \r\nno x y\r\nthe 5 6\r\nd\xc3 3 4e-1\r\n")
    values, known = load_vectors_from_file(tmp_path / "a.txt")(["disk", "The"])
    assert known.tolist() == [False, True]
    assert values.tolist() == [[0.0, 0.0], [1.0, 2.0]]


def test_without_gensim_texts_are_read_and_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gensim", "gensim.models", "gensim.models.fasttext", "gensim.models.keyedvectors"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "a.vec").write_text("1 1\nthe 0.5\n")
    assert load_vectors_from_file(tmp_path / "a.vec")(["the"])[0].tolist() == [[0.5]]
    with pytest.raises(UserError) as error:
        load_vectors_from_file(tmp_path / "a.bin")
    found = "gensim, which reads binary files, is not installed"
    assert str(error.value) == f"curriculum.vectors: {found}; expected `pip install gensim`"


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
