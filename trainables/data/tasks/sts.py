"""The sets of semantic textual similarity as the standard evaluation reads them: pairs of sentences and their gold.

Layout and counts are those of SentEval (Conneau and Kiela 2018): `STS/STS12-en-test/STS.input.*.txt` with
`STS.gs.*.txt`, STS13 to STS16 likewise, `STS/STSBenchmark/sts-{dev,test}.csv` and `SICK/SICK_test_annotated.txt`.
A quotation mark quotes nothing in these files.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from trainables.data.tasks.readers import FileLocation, quote_text, read_lines
from trainables.specs.sentence_encoder import STS_SETS
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json

LICENSED = {("STS13", "SMT")}
"""Subsets whose sentences no toolkit may hand on, only their gold; the standard evaluation is without them."""
EXPECTED_LAYOUT = "a folder with STS and SICK as SentEval lays them out"
_SICK_COLUMNS = ("sentence_A", "sentence_B", "relatedness_score")


class SentencePair(NamedTuple):
    """Two sentences, white space between their words single, and how similar people found them."""

    split: str
    query_id: str
    """ "<set>/<subset>", or "<set>" where a set has no subsets."""
    document_id: str
    """Line of the pair in its file, from 1."""
    first: str
    second: str
    relevant: float
    """Gold similarity, higher is more similar: 0 to 5, of SICK-R 1 to 5."""

    @property
    def pair_id(self) -> str:
        """Of its two sentences in either order: sets share pairs, and some have a pair twice."""
        return hash_json(sorted((self.first, self.second)))


class _Row(NamedTuple):
    location: FileLocation
    sentences: list[str]
    """The first two count."""
    gold: str
    gold_location: FileLocation


class _Part(NamedTuple):
    """The pairs of one split and query_id."""

    split: str
    query_id: str
    read: Callable[..., Iterator[_Row]]
    files: tuple[Path, ...]
    """What `read` takes."""


def read_pairs(folder: Path, sets: Iterable[str], skipped: Counter[str] | None = None) -> list[SentencePair]:
    """STS-B's pairs of the dev split, then the pairs of the sets of the test split, by subset and line.

    Args:
        folder: holds STS and SICK.
        sets: names of the sets of the test split.
        skipped: what is left out is added to it, reason -> pairs.

    Raises:
        UserError: an unknown set; a file is missing, not text (see `reading.lines`) or not in its format; gold and
            sentences of a subset differ in their lines; a gold is no number; a sentence is empty; no gold at all.
    """
    skip_counts = Counter[str]() if skipped is None else skipped
    pairs: list[SentencePair] = []
    for part in _find_parts(folder, sets):
        known = len(pairs)
        for row in part.read(*part.files):
            if part.read is _read_licensed:
                skip_counts["pair whose sentences are licensed"] += 1
            elif not row.gold.strip():
                skip_counts["pair without a gold similarity"] += 1
            else:
                pairs.append(_parse_pair(part, row))
        if len(pairs) == known and part.read is not _read_licensed:
            raise UserError(str(part.files[0]), "no gold similarity", "one or more")
    return pairs


def find_pair_files(folder: Path, sets: Iterable[str]) -> list[Path]:
    """The files that `read` reads.

    Raises:
        UserError: an unknown set, or a file is missing.
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
    found = {
        kind: {
            path.name.removeprefix(f"STS.{kind}.").removesuffix(".txt") for path in (folder / subfolder).glob(pattern)
        }
        for kind, pattern in (("gs", "STS.gs.*.txt"), ("input", "STS.input.*.txt"))
    }
    subsets = (found["gs"] | found["input"]) - {"ALL"}
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
    """Sentences a line, perhaps with more fields behind the two, and the gold of each on the same line."""
    golds, texts = list(read_lines(gold)), list(read_lines(sentences))
    if len(golds) != len(texts):
        raise UserError(str(gold), f"{len(golds)} lines", f"{len(texts)}, as {sentences.name} has")
    for (gold_location, number), (location, text) in zip(golds, texts, strict=True):
        yield _Row(location, text.split("\t"), number, gold_location)


def _read_benchmark(path: Path) -> Iterator[_Row]:
    """genre, file, year, number, gold, the sentences, and in some releases more."""
    for location, text in read_lines(path):
        fields = text.split("\t")
        if len(fields) < 7:
            raise UserError(
                str(location), f"fields: {len(fields)}", "7, tab-separated, the last three gold and sentences"
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
                    str(location), f"header {quote_text(', '.join(header))}", f"{', '.join(_SICK_COLUMNS)} among it"
                )
            first, second, gold = map(header.index, _SICK_COLUMNS)
        elif len(fields) != len(header):
            raise UserError(str(location), f"fields: {len(fields)}", f"{len(header)}, as the header has")
        else:
            yield _Row(location, [fields[first], fields[second]], fields[gold], location)
