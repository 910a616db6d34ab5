"""Reads the sets of semantic textual similarity: pairs of sentences and their gold similarity.

Layout and counts are those of SentEval (Conneau and Kiela 2018): `STS/STS12-en-test/STS.input.*.txt` with
`STS.gs.*.txt`, the same for STS13 to STS16, `STS/STSBenchmark/sts-{dev,test}.csv` and `SICK/SICK_test_annotated.txt`.
Quotation marks are ordinary characters in these files.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from trainables.specs.sentence_encoder import STS_SETS
from trainables.text.text_files import FileLocation, quote_text, read_lines
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json

LICENSED = {("STS13", "SMT")}
"""Subsets that the standard evaluation leaves out: a licence forbids toolkits to distribute their sentences."""
EXPECTED_LAYOUT = "a folder with STS and SICK in the layout of SentEval"
_SICK_COLUMNS = ("sentence_A", "sentence_B", "relatedness_score")


class SentencePair(NamedTuple):
    """Two sentences and the similarity that people gave them. White space in the sentences is normalised."""

    split: str
    query_id: str
    """Name of the group of pairs: "<set>/<subset>", or "<set>" if the set has no subsets."""
    document_id: str
    """Line number of the pair in its file, from 1."""
    first: str
    second: str
    relevant: float
    """Gold similarity, higher is more similar: 0 to 5, for SICK-R 1 to 5."""

    @property
    def pair_id(self) -> str:
        """Hash of the two sentences, independent of their order.

        It identifies a pair that occurs in several sets, or twice in one set.
        """
        return hash_json(sorted((self.first, self.second)))


class _Row(NamedTuple):
    location: FileLocation
    sentences: list[str]
    """Sentence fields of the row. Only the first two are used."""
    gold: str
    gold_location: FileLocation


class _Part(NamedTuple):
    """The pairs of one split and query_id."""

    split: str
    query_id: str
    read: Callable[..., Iterator[_Row]]
    files: tuple[Path, ...]
    """Arguments of `read`."""


def read_pairs(folder: Path, sets: Iterable[str], skipped: Counter[str] | None = None) -> list[SentencePair]:
    """Return the pairs of STS-B's dev split, then those of the test split, by set, subset and line.

    Raises:
        UserError: If a set is unknown, or if a file is missing, not text (see `read_lines`) or not in its format. Also
            if the two files of a subset, gold and sentences, have different numbers of lines. Also if a gold similarity
            is not a number, if a sentence is empty, or if a file contains no gold similarity.
    """
    skip_counts = Counter[str]() if skipped is None else skipped
    pairs: list[SentencePair] = []
    for part in _find_parts(folder, sets):
        n_before = len(pairs)
        for row in part.read(*part.files):
            if part.read is _read_licensed:
                skip_counts["pair with licensed sentences"] += 1
            elif not row.gold.strip():
                skip_counts["pair without a gold similarity"] += 1
            else:
                pairs.append(_parse_pair(part, row))
        if len(pairs) == n_before and part.read is not _read_licensed:
            raise UserError(str(part.files[0]), "no gold similarity", "one or more")
    return pairs


def find_pair_files(folder: Path, sets: Iterable[str]) -> list[Path]:
    """Return the files that `read_pairs` reads.

    Raises:
        UserError: If a set is unknown or a file is missing.
    """
    return [path for part in _find_parts(folder, sets) for path in part.files]


def _find_parts(folder: Path, sets: Iterable[str]) -> Iterator[_Part]:
    yield _Part("dev", "STS-B", _read_benchmark, (_find_file(folder, "STS/STSBenchmark/sts-dev.csv"),))
    for name in sets:
        if name not in STS_SETS:
            raise UserError("task.sets", quote_text(name), f"some of {', '.join(STS_SETS)}")
        if name == "STS-B":
            yield _Part("test", name, _read_benchmark, (_find_file(folder, "STS/STSBenchmark/sts-test.csv"),))
        elif name == "SICK-R":
            yield _Part("test", name, _read_sick, (_find_file(folder, "SICK/SICK_test_annotated.txt"),))
        else:
            yield from _find_subsets(folder, name)


def _find_subsets(folder: Path, name: str) -> Iterator[_Part]:
    subfolder = f"STS/{name}-en-test"
    names = {
        kind: {
            path.name.removeprefix(f"STS.{kind}.").removesuffix(".txt") for path in (folder / subfolder).glob(pattern)
        }
        for kind, pattern in (("gs", "STS.gs.*.txt"), ("input", "STS.input.*.txt"))
    }
    subsets = (names["gs"] | names["input"]) - {"ALL"}
    if not subsets:
        raise UserError("task.evaluation_path", f"{folder} has no {subfolder}/STS.gs.*.txt", EXPECTED_LAYOUT)
    for subset in sorted(subsets):
        gold = _find_file(folder, f"{subfolder}/STS.gs.{subset}.txt")
        if (name, subset) in LICENSED:
            yield _Part("test", f"{name}/{subset}", _read_licensed, (gold,))
        else:
            sentences = _find_file(folder, f"{subfolder}/STS.input.{subset}.txt")
            yield _Part("test", f"{name}/{subset}", _read_subset, (gold, sentences))


def _find_file(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise UserError("task.evaluation_path", f"{folder} has no {name}", EXPECTED_LAYOUT)
    return folder / name


def _parse_pair(part: _Part, row: _Row) -> SentencePair:
    if len(row.sentences) < 2:
        raise UserError(str(row.location), f"fields: {len(row.sentences)}", "two sentences, tab-separated")
    first, second = (" ".join(text.split()) for text in row.sentences[:2])
    if not first or not second:
        raise UserError(str(row.location), "an empty sentence", "text")
    if re.fullmatch(r"-?[0-9]+(\.[0-9]*)?", row.gold.strip(), re.ASCII) is None:
        raise UserError(str(row.gold_location), f"gold similarity {quote_text(row.gold)}", "a number")
    return SentencePair(part.split, part.query_id, str(row.location.line), first, second, float(row.gold))


def _read_licensed(gold: Path) -> Iterator[_Row]:
    return (_Row(location, [], text, location) for location, text in read_lines(gold))


def _read_subset(gold: Path, sentences: Path) -> Iterator[_Row]:
    """Yield the rows of a subset.

    A line has two sentences and perhaps further fields. The same line of the other file has their gold similarity.
    """
    golds, texts = list(read_lines(gold)), list(read_lines(sentences))
    if len(golds) != len(texts):
        raise UserError(str(gold), f"{len(golds)} lines", f"{len(texts)}, as in {sentences.name}")
    for (gold_location, number), (location, text) in zip(golds, texts, strict=True):
        yield _Row(location, text.split("\t"), number, gold_location)


def _read_benchmark(path: Path) -> Iterator[_Row]:
    """Yield the rows of STS-B: genre, file, year, number, gold, two sentences, and in some releases more."""
    for location, text in read_lines(path):
        fields = text.split("\t")
        if len(fields) < 7:
            raise UserError(
                str(location),
                f"fields: {len(fields)}",
                "at least 7, tab-separated, with gold and sentences as fields 5 to 7",
            )
        yield _Row(location, fields[5:7], fields[4], location)


def _read_sick(path: Path) -> Iterator[_Row]:
    header: list[str] | None = None
    for location, text in read_lines(path):
        fields = text.split("\t")
        if header is None:
            header = fields
            if not set(_SICK_COLUMNS) <= set(header):
                raise UserError(
                    str(location),
                    f"header {quote_text(', '.join(header))}",
                    f"a header with {', '.join(_SICK_COLUMNS)}",
                )
            first, second, gold = map(header.index, _SICK_COLUMNS)
        elif len(fields) != len(header):
            raise UserError(str(location), f"fields: {len(fields)}", f"{len(header)}, as in the header")
        else:
            yield _Row(location, [fields[first], fields[second]], fields[gold], location)
