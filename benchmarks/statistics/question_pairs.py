"""Question pairs for many seeds: the usual test file as it is, and all other duplicates that share no question with it.

python -m benchmarks.statistics.question_pairs QQP BIMPM FOLDER

QQP is the folder with quora_duplicate_questions.tsv, BIMPM that with dev.tsv and test.tsv of the split of Wang et al.
(2017). FOLDER gets train.tsv, dev.tsv and test.tsv in the format of that split.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

DEV = 300
"""Duplicates of dev: the last ones."""
Pair = tuple[str, str, str]
"""Two questions and the id of their pair."""


def read_quora(path: Path) -> Iterator[Pair]:
    """Yield the duplicates of Quora's own file."""
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["is_duplicate"] == "1":
                yield " ".join(row["question1"].split()), " ".join(row["question2"].split()), f"quora-{row['id']}"


def read_utf8(path: Path) -> str:
    """The text of a file of the split, where some dozens of lines have a broken character."""
    return path.read_text("utf-8", "replace")


def read_split(path: Path) -> Iterator[Pair]:
    """Yield the duplicates of a file of the split."""
    for line in read_utf8(path).splitlines():
        label, first, second, name = line.split("\t")
        if label == "1":
            yield first, second, name


def normalize(question: str) -> str:
    """The form in which two questions are the same: lower case, letters and digits only."""
    return " ".join("".join(c if c.isalnum() else " " for c in question.lower()).split())


def main(quora: str, split: str, folder: str) -> None:
    """Write the three files and count what was taken out."""
    tested = {normalize(question) for pair in read_split(Path(split, "test.tsv")) for question in pair[:2]}
    known, kept = set[tuple[str, ...]](), list[Pair]()
    counts = {"read": 0, "with a question of test": 0, "repeated": 0, "of one question": 0}
    for pair in [*read_quora(Path(quora, "quora_duplicate_questions.tsv")), *read_split(Path(split, "dev.tsv"))]:
        counts["read"] += 1
        questions = tuple(sorted(map(normalize, pair[:2])))
        if tested & {*questions}:
            counts["with a question of test"] += 1
        elif questions in known:
            counts["repeated"] += 1
        elif len({*questions}) == 1:
            counts["of one question"] += 1
        else:
            known.add(questions)
            kept.append(pair)
    print(", ".join(f"{count:,} {what}" for what, count in counts.items()), f"{len(kept):,} kept", sep=", ")
    place = Path(folder)
    place.mkdir(parents=True)
    for name, pairs in (("train", kept[:-DEV]), ("dev", kept[-DEV:])):
        lines = "".join(f"1\t{first}\t{second}\t{number}\n" for first, second, number in pairs)
        (place / f"{name}.tsv").write_text(lines, "utf-8")
    (place / "test.tsv").write_text(read_utf8(Path(split, "test.tsv")), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
