"""Published collections, where they are next to the repository: every row is accounted for."""

from pathlib import Path

import pytest

from tests.trainables.data.fixtures import settings
from trainables.data.tasks import SPLITS, IRDataset, get_task

DATA = Path(__file__).parents[5] / "shared" / "data"


def read(name: str, folder: str) -> IRDataset:
    path = DATA / folder
    if not path.exists():
        pytest.skip(f"{path} is absent")
    return get_task(name).read_dataset(settings(name, path))


def counts(collection: IRDataset) -> dict[str, tuple[int, int, int]]:
    """Judgements, queries and candidates by split."""
    found = {}
    for split in SPLITS:
        judged = [pair for pair in collection.qrels if pair.split == split]
        given = sum(row.split == split for row in collection.candidates)
        found[split] = len(judged), len({pair.query_id for pair in judged}), given
    return found


def test_quoras_first_pairs() -> None:
    collection = read("qqp", "qqp")
    assert counts(collection) == {"train": (2968, 2881, 0), "dev": (371, 371, 0), "test": (371, 369, 0)}
    assert collection.skipped == {"pair that is no duplicate": 9998 - 3710}
    assert (len(collection.queries), len(collection.documents)) == (3574, 3572)


def test_ubuntus_conversations() -> None:
    collection = read("dialogues", "ubuntu-irc")
    found = counts(collection)
    assert found == {"train": (19967, 15686, 19994), "dev": (1466, 1170, 13169), "test": (2639, 2196, 23769)}
    assert collection.skipped == {
        "judgement that was made before": 38,
        "candidate that was named before": 45,
        "candidate that is relevant": 13,
    }
    rows = sum(judged + given for judged, _, given in found.values()) + sum(collection.skipped.values())
    assert rows == 40_000 + 14_660 + 26_440
    assert (len(collection.queries), len(collection.documents)) == (19_052, 22_842)
    assert all(text.endswith(("[UTTERANCE_SEP]", "[TURN_SEP]")) for text in collection.queries.values())
