"""The command that re-ranks: the scores of the library, resumed after a kill, the same from any number of processes."""

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import ray
from sentence_transformers import CrossEncoder
from torch import nn

from study.rerank import main
from tests.trainables.exchange.test_classifier import write_classifier
from trainables.reranking.job import _open_parts

WORDS = [str(number) for number in range(100)]
LONGEST = 32


class Data(NamedTuple):
    """Files of a re-ranking and their texts."""

    model: Path
    run: Path
    queries: dict[str, str]
    documents: dict[str, str]

    @property
    def inputs(self) -> list[str]:
        place = self.run.parent
        return [
            str(self.model), f"--run={self.run}", f"--queries={place}/queries.tsv", f"--documents={place}/documents.tsv"
        ]  # fmt: skip

    def read(self, out: Path) -> dict[tuple[str, str], float]:
        """Pairs and scores of a new run."""
        rows = [line.split() for line in out.read_text().splitlines()]
        return {(query, document): float(score) for query, _, document, _, score, _ in rows}

    def predict(self, model: Path, pairs: list[tuple[str, str]]) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
        """The library's scores."""
        oracle = CrossEncoder(str(model), device="cpu", max_length=LONGEST)
        texts = [(self.queries[query], self.documents[document]) for query, document in pairs]
        return oracle.predict(texts, activation_fn=nn.Identity())


def write_data(place: Path, n_pairs: int) -> Data:
    """A random model and a run with texts of all lengths, empty and too long ones among them."""
    draw = random.Random(0)
    model = write_classifier(place / "model", "bert", max_position_embeddings=LONGEST)
    queries = {f"q{i}": " ".join(draw.choices(WORDS, k=i % 40)) for i in range(50)}
    documents = {f"d{i}": " ".join(draw.choices(WORDS, k=i % 60)) for i in range(200)}
    pairs = draw.sample([(query, document) for query in queries for document in documents], n_pairs)
    os.mkfifo(place / "pipe")
    (place / "first.run").write_text("".join(f"{q} Q0 {d} 1 {-i} first\n" for i, (q, d) in enumerate(pairs)))
    for name, texts in (("queries", queries), ("documents", documents | {"other": "1"})):
        (place / f"{name}.tsv").write_text("".join(f"{identity}\t{text}\n" for identity, text in texts.items()))
    return Data(model, place / "first.run", queries, documents)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), 5000)


@pytest.fixture(scope="module")
def reranked(data):
    """Runs the command undisturbed and returns the bytes of the new run."""
    out = data.run.with_name("new.run")
    assert main([*data.inputs, "--threads=1", "--precision=fp32", f"--out={out}"]) == 0
    assert sorted(path.name for path in data.run.parent.iterdir() if "new.run" in path.name) == ["new.run"]
    return out.read_bytes()


def test_scores_are_those_of_the_library(data, reranked):
    found = data.read(data.run.with_name("new.run"))
    assert len(found) == 5000
    np.testing.assert_allclose(list(found.values()), data.predict(data.model, list(found)), rtol=0, atol=1e-5)
    assert np.std(list(found.values())) > 1e-2
    assert reranked.splitlines()[0].endswith(b" model")


def test_auto_is_bf16_where_that_is_faster(data, reranked, tmp_path, monkeypatch):
    written = list[bytes]()
    for faster, precision in ((False, "auto"), (True, "auto"), (False, "bf16")):
        monkeypatch.setattr("trainables.specs.environment.is_bf16_faster", lambda device, faster=faster: faster)
        out = tmp_path / f"{len(written)}.run"
        assert main([*data.inputs, "--threads=1", "--tag=model", f"--precision={precision}", f"--out={out}"]) == 0
        written.append(out.read_bytes())
    assert written[0] == reranked != written[1] == written[2]


@pytest.mark.slow
def test_several_processes_write_the_same_bytes(data, reranked, tmp_path):
    options = ["--threads=1", "--precision=fp32", f"--out={tmp_path}/new.run"]
    assert main([*data.inputs, *options, "--processes=2"]) == 0
    assert (tmp_path / "new.run").read_bytes() == reranked


@pytest.mark.long
@pytest.mark.slow
def test_a_ray_cluster_writes_the_same_bytes(data, reranked, tmp_path, capsys):
    # For good, as a study does: Ray reads its token once in a process. Without one it writes one to the home folder.
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        options = ["--threads=1", "--precision=fp32", f"--out={tmp_path}/new.run", "--address=auto"]
        assert main([*data.inputs, *options]) == 0
        assert main([*data.inputs, *options, "--threads=3"]) == 2
    finally:
        ray.shutdown()
    assert "--threads: 3; expected at most the cores of a node of the cluster" in capsys.readouterr().err
    assert (tmp_path / "new.run").read_bytes() == reranked


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_killed_command_resumes_and_writes_the_same_bytes(data, reranked, tmp_path, processes):
    out = tmp_path / "new.run"
    options = ["--threads=1", "--precision=fp32", f"--processes={processes}", f"--out={out}"]
    command = [sys.executable, "-m", "study.rerank", *data.inputs, *options]
    first = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 120
    while not (parts := sorted(tmp_path.glob("new.run.parts/*/scores-*.npy.sha256"))) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert parts
    assert not out.exists()
    part = parts[0].with_suffix("")
    part.write_bytes(part.read_bytes()[:-1] + b"\x00")
    again = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    assert f"{part.name} does not match its checksum; it is computed again" in again.stdout
    assert out.read_bytes() == reranked
    assert [path.name for path in tmp_path.iterdir()] == ["new.run"]


def test_only_missing_chunks_are_computed(data, reranked, tmp_path, monkeypatch, capsys):
    from trainables.reranking import chunk_scorer

    out, compute, computed = tmp_path / "new.run", chunk_scorer.ChunkScorer.score, list[int]()

    def fail_at_the_second(self: chunk_scorer.ChunkScorer, chunk: chunk_scorer.TokenizedTexts) -> chunk_scorer.Scores:
        computed.append(len(chunk.starts))
        if len(computed) == 2:
            raise RuntimeError("stopped")
        return compute(self, chunk)

    monkeypatch.setattr(chunk_scorer.ChunkScorer, "score", fail_at_the_second)
    command = [*data.inputs, "--threads=1", "--precision=fp32", f"--out={out}"]
    assert main(command) == 1
    assert main([*command, "--run=none"]) == main([*command, "--documents", str(data.run)]) == 2  # keeps the parts
    computed.clear()
    computed += [0, 0]
    assert main(command) == 0
    assert computed == [0, 0, 2048, 904]
    assert "2048 of 5000 pairs were scored before" in capsys.readouterr().out
    assert out.read_bytes() == reranked


def test_scores_of_an_ensemble_are_means(data, tmp_path):
    members = [
        write_classifier(tmp_path / "both" / name, "bert", max_position_embeddings=LONGEST, initializer_range=std)
        for name, std in (("seed-1", 0.2), ("seed-2", 0.3))
    ]
    (tmp_path / "both" / "ensemble.json").write_text(json.dumps({"models": ["seed-1", "seed-2"]}))
    options = [f"--out={tmp_path}/new.run", "--precision=fp32", "--depth=2", "--tag=mean"]
    assert main([str(tmp_path / "both"), *data.inputs[1:], *options]) == 0
    found = data.read(tmp_path / "new.run")
    assert len(found) == 100
    expected = np.mean([data.predict(member, list(found)) for member in members], axis=0)
    np.testing.assert_allclose(list(found.values()), expected, rtol=0, atol=1e-5)


MISTAKES = {
    "--run={place}/none.run": "{place}/none.run: no such file; expected a run",
    "--queries={place}/none.tsv": "--queries: {place}/none.tsv does not exist; expected",
    "--queries={place}/pipe": "--queries: {place}/pipe is no regular file; expected",
    "--documents={place}/queries.tsv": "queries.tsv: no text for 200 of the run's 200, first d",
    "--out={place}/none/new.run": "--out: the folder {place}/none does not exist; expected",
    "--out={place}/first.run": "--out: {place}/first.run is an input of this command; expected another file",
    "--out={place}/queries.tsv": "--out: {place}/queries.tsv is an input of this command; expected",
    "--out={place}/model/config.json": "config.json exists and is no run with the tag model; expected a new file",
    "--out={place}": "--out: {place} exists and is no regular file; expected a file",
    "--depth=0": "--depth: 0; expected at least 1",
    "--max-length=33": "--max-length: 33; expected at most the model's 32",
    "--tag=a b": "--tag: 'a b'; expected a text without blanks",
    "--processes=2 --address=auto": "--processes: 2; expected 1 with --address",
    "--address=here": "--address: 'here'; expected auto",
}


@pytest.mark.parametrize(("changes", "message"), MISTAKES.items())
def test_mistakes_are_one_line(data, tmp_path, changes, message, capsys):
    place = data.run.parent
    changed = [changes] if changes.startswith("--tag") else changes.split()
    assert main([*data.inputs, f"--out={tmp_path}/new.run", *(word.format(place=place) for word in changed)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("study.rerank: ")
    assert error.count("\n") == 1
    assert message.format(place=place) in error
    assert list(tmp_path.iterdir()) == []


def test_a_run_with_the_tag_of_the_command_is_replaced_and_no_other(data, tmp_path, capsys):
    out = tmp_path / "new.run"
    out.write_text(before := "q1 Q0 d1 1 2.5 first\n")
    command = [*data.inputs, "--threads=1", "--depth=1", f"--out={out}"]
    assert main(command) == 2
    assert out.read_text() == before
    assert capsys.readouterr().err == (
        f"study.rerank: --out: {out} exists and is no run with the tag model; expected a new file, or a run with "
        "the tag model that this command wrote: name another file, or remove this one\n"
    )
    assert main([*command, "--tag=first"]) == main([*command, "--tag=first"]) == 0
    assert len(data.read(out)) == 50


def test_a_folder_without_a_model_is_one_line(data, tmp_path, capsys):
    assert main([str(tmp_path), *data.inputs[1:], f"--out={tmp_path}/new.run"]) == 2
    assert "MODEL: no model at" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{place}", "seeds=[1]"], "command line: 'seeds=[1]'; expected overrides with STUDY:SYSTEM alone"),
        (["nothing:MINE"], "nothing: no such file; expected a study file or a name that --list shows"),
        (["quick:MINE", "output.folder={place}"], "{place}: no results; expected a study that has been run"),
        (["quick:MINE", "--address=auto"], "--address: auto; expected a folder on a shared disk as MODEL"),
    ],
)
def test_a_system_that_cannot_be_had_is_one_line(data, tmp_path, words, message, capsys):
    given = [word.format(place=tmp_path) for word in words]
    assert main([*given, *data.inputs[1:], f"--out={tmp_path}/new.run"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message.format(place=tmp_path) in error


def test_a_folder_of_parts_that_somebody_else_made_is_an_error_and_stays(data, tmp_path, capsys):
    mine = tmp_path / "new.run.parts" / "notes.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    assert main([*data.inputs, f"--out={tmp_path}/new.run"]) == 2
    assert "--out: " in (error := capsys.readouterr().err)
    assert "new.run.parts exists and is not a folder of scores; expected" in error
    assert [*tmp_path.rglob("*")] == [mine.parent, mine]


def test_a_hidden_file_does_not_make_a_folder_of_parts_somebody_elses(tmp_path):
    parts = tmp_path / "new.run.parts"
    parts.mkdir()
    (parts / ".nfs0001").touch()
    (parts / ".DS_Store").write_text("x")
    with _open_parts(tmp_path / "new.run", "0" * 16) as folder:
        folder.mkdir()
    assert sorted(path.name for path in parts.iterdir()) == [".DS_Store", ".nfs0001"]


def test_an_ensemble_names_no_model_outside_its_folder(data, tmp_path, capsys):
    (tmp_path / "ensemble.json").write_text(json.dumps({"models": [str(data.model)]}))
    assert main([str(tmp_path), *data.inputs[1:], f"--out={tmp_path}/new.run"]) == 2
    assert f"in ensemble.json of {tmp_path.name!r}; expected the name of a folder inside it" in capsys.readouterr().err


def test_two_commands_do_not_write_the_same_run(data, tmp_path, capsys):
    from filelock import FileLock

    (tmp_path / "new.run.parts").mkdir()
    with FileLock(tmp_path / "new.run.parts" / "lock"):
        assert main([*data.inputs, f"--out={tmp_path}/new.run"]) == 2
    assert "--out: another process writes" in capsys.readouterr().err
