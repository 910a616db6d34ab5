import pytest

from tests.trainables.data.fixtures import SPLITS, document, query, settings, write_lines
from tests.trainables.data.library import tiny_settings, write_library
from trainables.data.ranking_dataset import RankingDataset
from trainables.data.ranking_preparation import prepare_data


@pytest.fixture(scope="session")
def dialogues(tmp_path_factory: pytest.TempPathFactory) -> RankingDataset:
    """Contexts of one to three utterances; 5 random candidates in training, without BM25, and 4 by BM25 elsewhere."""
    place = tmp_path_factory.mktemp("dialogues")
    for split, part in SPLITS.items():
        contexts = {i: [query(i), f"What do you use, {i}?", f"The newest release of {i}."][: 1 + i % 3] for i in part}
        lines = ["\t".join(["1", *own, f"{document(i)}{' now' * (i % 5)}"]) for i, own in contexts.items()]
        write_lines(place / "files" / f"{split}.tsv", lines)
    return prepare_data(
        settings("dialogues", place / "files", train_negatives=4, sampler={"name": "random"}), place / "cache"
    )


@pytest.fixture(scope="session")
def docstrings(tmp_path_factory: pytest.TempPathFactory) -> RankingDataset:
    """No dialogues; BM25 everywhere, because the weak labels are made of it."""
    place = tmp_path_factory.mktemp("docstrings")
    write_library(place / "site", functions=80)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place / "site")
        return prepare_data(tiny_settings(sampler={"weak_label": "bm25"}), place / "cache")
