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

from trainables.data.tasks.readers import Place, lines, quoted
from trainables.specs.sentence_encoder import SETS
from trainables.utils.errors import UserError
from trainables.utils.hashing import digest

LICENSED = {("STS13", "SMT")}
"""Subsets whose sentences no toolkit may hand on, only their gold; the standard evaluation is without them."""
EXPECTED = "a folder with STS and SICK as SentEval lays them out"
_SICK = ("sentence_A", "sentence_B", "relatedness_score")


class Pair(NamedTuple):
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
        return digest(sorted((self.first, self.second)))


class _Row(NamedTuple):
    place: Place
    sentences: list[str]
    """The first two count."""
    gold: str
    gold_place: Place


class _Part(NamedTuple):
    """The pairs of one split and query_id."""

    split: str
    query_id: str
    read: Callable[..., Iterator[_Row]]
    files: tuple[Path, ...]
    """What `read` takes."""


def read(folder: Path, sets: Iterable[str], skipped: Counter[str] | None = None) -> list[Pair]:
    """STS-B's pairs of the dev split, then the pairs of the sets of the test split, by subset and line.

    Args:
        folder: holds STS and SICK.
        sets: names of the sets of the test split.
        skipped: what is left out is added to it, reason -> pairs.

    Raises:
        UserError: an unknown set; a file is missing, not text (see `reading.lines`) or not in its format; gold and
            sentences of a subset differ in their lines; a gold is no number; a sentence is empty; no gold at all.
    """
    left_out = Counter[str]() if skipped is None else skipped
    pairs: list[Pair] = []
    for part in _parts(folder, sets):
        known = len(pairs)
        for row in part.read(*part.files):
            if part.read is _licensed:
                left_out["pair whose sentences are licensed"] += 1
            elif not row.gold.strip():
                left_out["pair without a gold similarity"] += 1
            else:
                pairs.append(_pair(part, row))
        if len(pairs) == known and part.read is not _licensed:
            raise UserError(str(part.files[0]), "no gold similarity", "one or more")
    return pairs


def files(folder: Path, sets: Iterable[str]) -> list[Path]:
    """The files that `read` reads.

    Raises:
        UserError: an unknown set, or a file is missing.
    """
    return [path for part in _parts(folder, sets) for path in part.files]


def _parts(folder: Path, sets: Iterable[str]) -> Iterator[_Part]:
    yield _Part("dev", "STS-B", _benchmark, (_file(folder, "STS/STSBenchmark/sts-dev.csv"),))
    for name in sets:
        if name not in SETS:
            raise UserError("task.sets", quoted(name), f"some of {', '.join(SETS)}")
        if name == "STS-B":
            yield _Part("test", name, _benchmark, (_file(folder, "STS/STSBenchmark/sts-test.csv"),))
        elif name == "SICK-R":
            yield _Part("test", name, _sick, (_file(folder, "SICK/SICK_test_annotated.txt"),))
        else:
            yield from _subsets(folder, name)


def _subsets(folder: Path, name: str) -> Iterator[_Part]:
    place = f"STS/{name}-en-test"
    found = {
        kind: {path.name.removeprefix(f"STS.{kind}.").removesuffix(".txt") for path in (folder / place).glob(pattern)}
        for kind, pattern in (("gs", "STS.gs.*.txt"), ("input", "STS.input.*.txt"))
    }
    subsets = (found["gs"] | found["input"]) - {"ALL"}
    if not subsets:
        raise UserError("task.evaluation_path", f"{folder} has no {place}/STS.gs.*.txt", EXPECTED)
    for subset in sorted(subsets):
        gold = _file(folder, f"{place}/STS.gs.{subset}.txt")
        if (name, subset) in LICENSED:
            yield _Part("test", f"{name}/{subset}", _licensed, (gold,))
        else:
            sentences = _file(folder, f"{place}/STS.input.{subset}.txt")
            yield _Part("test", f"{name}/{subset}", _subset, (gold, sentences))


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise UserError("task.evaluation_path", f"{folder} has no {name}", EXPECTED)
    return folder / name


def _pair(part: _Part, row: _Row) -> Pair:
    if len(row.sentences) < 2:
        raise UserError(str(row.place), f"fields: {len(row.sentences)}", "two sentences, tab-separated")
    first, second = (" ".join(text.split()) for text in row.sentences[:2])
    if not first or not second:
        raise UserError(str(row.place), "an empty sentence", "text")
    if re.fullmatch(r"-?[0-9]+(\.[0-9]*)?", row.gold.strip(), re.ASCII) is None:
        raise UserError(str(row.gold_place), f"gold similarity {quoted(row.gold)}", "a number")
    return Pair(part.split, part.query_id, str(row.place.line), first, second, float(row.gold))


def _licensed(gold: Path) -> Iterator[_Row]:
    return (_Row(place, [], text, place) for place, text in lines(gold))


def _subset(gold: Path, sentences: Path) -> Iterator[_Row]:
    """Sentences a line, perhaps with more fields behind the two, and the gold of each on the same line."""
    golds, texts = list(lines(gold)), list(lines(sentences))
    if len(golds) != len(texts):
        raise UserError(str(gold), f"{len(golds)} lines", f"{len(texts)}, as {sentences.name} has")
    for (gold_place, number), (place, text) in zip(golds, texts, strict=True):
        yield _Row(place, text.split("\t"), number, gold_place)


def _benchmark(path: Path) -> Iterator[_Row]:
    """genre, file, year, number, gold, the sentences, and in some releases more."""
    for place, text in lines(path):
        fields = text.split("\t")
        if len(fields) < 7:
            raise UserError(str(place), f"fields: {len(fields)}", "7, tab-separated, the last three gold and sentences")
        yield _Row(place, fields[5:7], fields[4], place)


def _sick(path: Path) -> Iterator[_Row]:
    header: list[str] | None = None
    for place, text in lines(path):
        fields = text.split("\t")
        if header is None:
            header = fields
            if not set(_SICK) <= set(header):
                raise UserError(str(place), f"header {quoted(', '.join(header))}", f"{', '.join(_SICK)} among it")
            first, second, gold = map(header.index, _SICK)
        elif len(fields) != len(header):
            raise UserError(str(place), f"fields: {len(fields)}", f"{len(header)}, as the header has")
        else:
            yield _Row(place, [fields[first], fields[second]], fields[gold], place)
