"""Writes Quora's questions as a collection in the layout of SciFact, for studies of retrieved candidates.

Every question is a document, a question with a duplicate is a query, and its duplicates are relevant.

python -m benchmarks.first_stage QUESTIONS FOLDER    # QUESTIONS is quora_duplicate_questions.tsv
"""

import csv
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from trainables.data.tasks.splits import split_in_order


def write_collection(questions: Path, folder: Path) -> None:
    """Write the collection; queries are split 80/10/10 % in the order of the file."""
    with questions.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream, delimiter="\t") if row["question1"] and row["question2"]]
    texts = {row[f"qid{side}"]: row[f"question{side}"].strip() for row in rows for side in "12"}
    relevant: dict[str, list[str]] = {}
    for row in rows:
        if row["is_duplicate"] == "1":
            relevant.setdefault(row["qid1"], []).append(row["qid2"])
    _write_lines(folder / "corpus.jsonl", (json.dumps({"_id": n, "title": "", "text": t}) for n, t in texts.items()))
    _write_lines(folder / "queries.jsonl", (json.dumps({"_id": name, "text": texts[name]}) for name in relevant))
    splits = split_in_order(len(relevant))
    for split in ("train", "dev", "test"):
        names = [name for name, own in zip(relevant, splits, strict=True) if own == split]
        pairs = [f"{name}\t{document}\t1" for name in names for document in relevant[name]]
        _write_lines(folder / "qrels" / f"{split}.tsv", ["query-id\tcorpus-id\tscore", *pairs])


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    write_collection(*map(Path, sys.argv[1:]))
