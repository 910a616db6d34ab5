"""Statistics of prepared data are those that are counted by hand, and nothing else depends on them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.trainables.data.fixtures import WRITERS
from tests.trainables.encoders import Encoders
from trainables.data.ranking_preparation import prepare_data
from trainables.data.statistics import load_ranking_statistics, load_sentence_statistics
from trainables.rankers.ranker_data import describe_data
from trainables.specs.ranking_task import RankerTaskSettings

CONVERSATIONS = (
    ("it", "one two [X]|three", "a b c", "d"),
    ("travel", "one|two three four|five", "a  b", "c d e f"),
    ("it", "just this", "a", "b"),
)
"""Domain, utterances, the relevant response and another one."""


def write_conversations(folder: Path, with_domains: bool) -> RankerTaskSettings:
    """Each split has the conversations, with words of its own in front of each text."""
    for number, split in enumerate(("train", "dev", "test")):
        header = ["label\tdomain\tutterances\tresponse"] * with_domains
        lines = []
        for domain, utterances, relevant, other in CONVERSATIONS[number:]:
            spoken = "\t".join(f"{split}{number} {part}" for part in utterances.split("|"))
            for label, response in (("1", relevant), ("0", other)):
                lines.append("\t".join([label, *[domain] * with_domains, spoken, f"{split} {response}"]))
        (folder / f"{split}.tsv").write_text("\n".join([*header, *lines]) + "\n")
    task: dict[str, object] = {"name": "dialogues", "path": str(folder), "candidates": 2}
    task |= {key: {"name": "given"} for key in ("sampler", "evaluation_sampler")}
    return RankerTaskSettings.model_validate(task)


def rows(statistics: dict[str, Any]) -> dict[str, list[float | None]]:
    return {row["name"]: row["values"] for row in statistics["rows"]}


def test_dialogues_are_counted_as_in_the_paper(tmp_path: Path) -> None:
    task = write_conversations(tmp_path, with_domains=True)
    found = rows(load_ranking_statistics(prepare_data(task, tmp_path / "cache")))
    assert found == {
        "queries": [3, 2, 1],
        "query-document pairs": [6, 4, 2],
        "candidates per query": [2, 2, 2],
        "turns per query": [2.0, 2.0, 1.0],
        # one two [X], three, one, two three four, five, just this: 11 words and one in front of each utterance
        "words per turn": [round((11 + 6) / 6, 4), round((7 + 4) / 4, 4), 3.0],
        "words per query": [round((11 + 6) / 3, 4), round((7 + 4) / 2, 4), 3.0],
        "words per document": [round((4 + 2 + 3 + 5 + 2 + 2) / 6, 4), 3.0, 2.0],
        "domains": [2, 2, 1],
    }


def test_without_domains_there_is_no_such_row(tmp_path: Path) -> None:
    task = write_conversations(tmp_path, with_domains=False)
    assert "domains" not in rows(load_ranking_statistics(prepare_data(task, tmp_path / "cache")))


def test_a_document_counts_as_often_as_it_is_a_candidate_and_turns_are_of_dialogues_only(tmp_path: Path) -> None:
    prepared = prepare_data(WRITERS["qqp"](tmp_path), tmp_path / "cache")
    found = rows(load_ranking_statistics(prepared))
    assert "turns per query" not in found
    queries, documents = (
        dict(table.itertuples(index=False)) for table in (prepared.read_queries(), prepared.read_documents())
    )
    for place, split in enumerate(("train", "dev", "test")):
        table = prepared.read_candidates(split)
        own = list(dict.fromkeys(table["query_id"]))
        words = [len(documents[name].split()) for name in table["document_id"]]
        assert found["queries"][place] == len(own)
        assert found["words per document"][place] == pytest.approx(sum(words) / len(words), abs=1e-4)
        expected = sum(len(queries[name].split()) for name in own) / len(own)
        assert found["words per query"][place] == pytest.approx(expected, abs=1e-4)


def test_data_of_an_earlier_version_has_them_too_and_neither_its_files_nor_plans_change(tmp_path: Path) -> None:
    settings = WRITERS["dialogues"](tmp_path)
    prepared = prepare_data(settings, tmp_path / "cache")
    described = describe_data(prepared)
    before = {path: path.read_bytes() for path in prepared.folder.iterdir()}
    assert not any("statistics" in path.name for path in before)
    first = load_ranking_statistics(prepared)
    path = prepared.folder / "statistics.json"
    stored = path.read_bytes()
    assert load_ranking_statistics(prepared) == first
    path.write_text(json.dumps({"format": 1, "statistics": {"columns": [], "rows": [], "legend": ""}}))  # no checksum
    assert load_ranking_statistics(prepared) == first
    assert path.read_bytes() == stored
    assert {path: path.read_bytes() for path in before} == before
    assert describe_data(prepared) == described
    again = prepare_data(settings, tmp_path / "cache")
    assert (again.fingerprint, again.folder) == (prepared.fingerprint, prepared.folder)


def test_sentences_are_counted_by_set(encoders: Encoders) -> None:
    prepared = encoders.prepared
    statistics = load_sentence_statistics(prepared)
    found, pairs = rows(statistics), prepared.read_pairs()
    assert statistics["columns"][0] == "train"
    assert found["sentences"][0] == len(prepared.read_sentences())
    assert found["pairs"][0] is None
    sets = pairs["split"] + " " + pairs["query_id"].str.split("/").str[0]
    assert set(statistics["columns"][1:]) == set(sets)
    for place, name in enumerate(statistics["columns"][1:], start=1):
        own = pairs[sets == name]
        sentences = {*own["first"], *own["second"]}
        assert (found["pairs"][place], found["sentences"][place]) == (len(own), len(sentences))
        mean = sum(len(text.split()) for text in sentences) / len(sentences)
        assert found["words per sentence"][place] == pytest.approx(mean, abs=1e-4)
