"""A tiny evaluation of sentence encoders on disk: the seven sets in the layout of SentEval, and training sentences."""

from collections.abc import Iterable
from pathlib import Path

from trainables.specs.sentence_encoder import EncoderTaskSettings

SUBSETS = {
    "STS12": ("MSRpar", "MSRvid", "surprise.OnWN"),
    "STS13": ("FNWN", "headlines"),
    "STS14": ("deft-forum", "images", "tweet-news"),
    "STS15": ("answers-forums", "belief"),
    "STS16": ("plagiarism", "question-question"),
}
"""Set -> its subsets, except the one of STS13 that has no sentences."""
PAIRS = 8
"""Pairs of a subset, and of STS-B's dev and test and of SICK-R."""
SHARED = 3
"""Pairs of STS-B's test that are those of STS12's first subset, the last of them the other way round."""
UNRATED = ("STS15", "STS16")
"""Sets in which every pair is followed by one without a gold similarity."""
LICENSED = 5
"""Number of pairs that have only a gold similarity."""

_WHO = ("A man", "Two dogs", "The café", '"Nobody"', "Zoë", "A small — red — car", "北京", "The naïve player")
_WHAT = ("is playing", "stands", "runs fast", "was seen", "waits quietly", "turned around", "sleeps", "calls")
_WHERE = ("in the park", "near a river", "on the stage", "at 5 o'clock", "with friends", "in Köln", "today", "at home")


def sentence(i: int) -> str:
    """Sentence `i`; 512 differ."""
    return f"{_WHO[i % 8]} {_WHAT[i // 8 % 8]} {_WHERE[(i // 64 + i) % 8]} ."


def pair(number: int, place: int) -> tuple[str, str, str]:
    """Two sentences and their gold of pair `place` in part `number`: the higher, the more words they share."""
    i = 61 * number + 9 * place
    same = place % 4  # who, what, where of the first that the second keeps
    words = [(_WHO, i), (_WHAT, i // 8), (_WHERE, i // 64 + i)]
    second = " ".join(part[(at + (0 if kept < same else 3)) % 8] for kept, (part, at) in enumerate(words))
    return sentence(i), f"{second} .", f"{min(5.0, 1.5 * same + place % 3 / 4):.3f}"


def write_sts(folder: Path) -> Path:
    """Writes STS and SICK below `folder` and returns it."""
    for year, (name, subsets) in enumerate(SUBSETS.items()):
        place = folder / "STS" / f"{name}-en-test"
        for number, subset in enumerate(subsets):
            rated = [pair(10 * year + number, i) for i in range(PAIRS)]
            unrated = [[("Never", "rated", "")] if name in UNRATED else []] * PAIRS
            rows = [row for one, more in zip(rated, unrated, strict=True) for row in (one, *more)]
            extra = "\tsource\tmore" if name == "STS16" else ""
            _write(place / f"STS.input.{subset}.txt", (f"{first}\t{second}{extra}" for first, second, _ in rows))
            _write(place / f"STS.gs.{subset}.txt", (gold for _, _, gold in rows))
        _write(place / "00-readme.txt", ["about the set"])
    _write(folder / "STS" / "STS12-en-test" / "STS.gs.ALL.txt", ["1.0"] * PAIRS * len(SUBSETS["STS12"]))
    _write(folder / "STS" / "STS13-en-test" / "STS.gs.SMT.txt", ["4.2"] * LICENSED)
    _write(folder / "STS" / "STS14-en-test" / "STS.output.images.txt", ["not\ta\tset"])
    for number, part in enumerate(("dev", "test"), start=60):
        shared = SHARED if part == "test" else 0
        rows = [
            ("main-captions", "MSRvid", "2012test", f"{i:04}", *_gold_first(0 if i < shared else number, i, i == 2))
            for i in range(PAIRS)
        ]
        _write(folder / "STS" / "STSBenchmark" / f"sts-{part}.csv", map("\t".join, rows))
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    rows = [(str(7 * i), *pair(62, i), "NEUTRAL") for i in range(PAIRS)]
    _write(folder / "SICK" / "SICK_test_annotated.txt", [header, *map("\t".join, rows)], "\r\n")
    return folder


def write_sentences(path: Path, count: int = 200) -> Path:
    """Writes that many different sentences, one a line, at most 512."""
    _write(path, map(sentence, range(count)))
    return path


def write_settings(folder: Path, count: int = 200, **changes: object) -> EncoderTaskSettings:
    """Writes sentences and the seven sets below `folder` and returns the settings that name them."""
    paths = {"path": str(write_sentences(folder / "sentences.txt", count)), "evaluation_path": str(write_sts(folder))}
    return EncoderTaskSettings.model_validate({**paths, **changes})


def _gold_first(number: int, place: int, swapped: bool) -> tuple[str, str, str]:
    first, second, gold = pair(number, place)
    return (gold, second, first) if swapped else (gold, first, second)


def _write(path: Path, lines: Iterable[str], end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + end for line in lines), encoding="utf-8", newline="")
