"""Tiny studies of each trainable, the files that they name, and other values for their keys, for `run_ids`."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
from safetensors.numpy import save

STUDIES = {
    "cross-encoder": """
name = "keys"
seeds = [1, 2]
[task]
name = "dialogues"
path = "{folder}/inputs/data"
[model]
name = "{folder}/inputs/model"
max_length = 32
[training]
instances = 64
batch_size = 8
negatives = 3
evaluations = 2
precision = "fp32"
sampling = "uniform"
[curriculum]
variants = ["BERT"]
score = ["BERT_loss", "sigma_SM"]
pacing = ["root_2", "linear"]
delta = [0.33, 0.5]
duration = [0.5, 0.9]
vectors = "{folder}/inputs/vectors.vec"
[search]
sampler = "qmc"
schedule = ["two_stage", "linear", "exponential", "beta"]
epsilon = [0.1, 0.2]
switch = [0.25, 0.5]
end = [0.5, 0.8]
rate = [1.0, 5.0]
a = [1.0, 2.0]
b = [1.0, 2.0]
learning_rate = [5e-6, 1e-5]
[search.n_configurations]
LS = 1
T-LS = 6
WSLS = 1
T-WSLS = 1
[confirm]
seeds = [101, 102]
[analysis]
metric = "MAP"
[cache]
folder = "{folder}/cache"
""",
    "sentence-encoder": """
name = "keys"
trainable = "sentence-encoder"
seeds = [1, 2]
[task]
path = "{folder}/inputs/data/sentences.txt"
evaluation_path = "{folder}/inputs/data"
sets = ["STS-B", "SICK-R"]
[model]
name = "{folder}/inputs/model"
[training]
instances = 64
batch_size = 8
evaluations = 2
precision = "fp32"
[search]
sampler = "qmc"
schedule = ["two_stage", "linear", "exponential", "beta"]
weight = [0.5, 1.0]
multiple = [1.0, 3.0]
mean = [0.5, 1.0]
deviation = [1.0, 2.0]
switch = [0.25, 0.5]
end = [0.5, 0.8]
rate = [1.0, 5.0]
a = [1.0, 2.0]
b = [1.0, 2.0]
learning_rate = [1e-5, 3e-5]
[search.n_configurations]
GS-InfoNCE = 2
T-GS-InfoNCE = 6
[confirm]
seeds = [101, 102]
[cache]
folder = "{folder}/cache"
""",
}
"""A study of each trainable in which every key has something to change."""
VALUES: dict[str, tuple[str, ...]] = {
    "analysis.comparisons": ('[["LS", "WSLS"]]', '[["T-GS-InfoNCE", "GS-InfoNCE"]]'),
    "analysis.metric": ("R10@1", "MRR", "nDCG@3", "STS/STS-B"),
    "cache.checkpoints": ("{folder}/checkpoints",),
    "cache.max_size": ("1GB",),
    "confirm.group_size": ("2",),
    "curriculum.scorer_instances": ("32",),
    "curriculum.seed": ("9",),
    "curriculum.variants": ('["BERT", "LS"]',),
    "output.folder": ("{folder}/results",),
    "output.remote": ("{folder}/copy",),
    "search.batch_size": ("[8, 16]",),
    "search.compare": ("epsilon", "multiple"),
    "search.learning_rate": ("[5e-6]", "[3e-5]"),
    "search.n_configurations.BERT": ("1",),
    "search.n_configurations.SimCSE": ("1",),
    "search.loss": ('["cross_entropy", "lce"]',),
    "search.negatives": ("[1, 3]",),
    # Several, since a second objective does not change every simulated search.
    "search.objectives": ('["MAP", "ECE"]', '["MAP", "NLL"]', '["MAP", "Brier", "Spearman"]', '["STS"]'),
    "search.sampler": ("tpe",),
    "search.teacher_temperature": ("[2.0]",),
    "search.temperature": ("[0.05, 0.1]",),
    "search.weak_temperature": ("[2.0]",),
    "task.dev_share": ("0.3",),
    "task.evaluation_sampler.name": ("random",),
    "task.name": ("beir",),
    "task.sample": ("12",),
    "task.sampler.name": ("random",),
    "task.test_relevant_from": ("2",),
    "training.batch_size": ("16",),
    "training.checkpoint": ("MAP", "STS"),
    "training.epochs": ("5",),
    "training.instances": ("128",),
    "training.negatives": ("1",),
    "trial.memory": ("4GB",),
}
"""Other values of a key, where none follows from its type. A value that a trainable refuses is left out there."""
CONTEXT: dict[str, tuple[str, ...]] = {
    "confirm.group_size": ("confirm.seeds=3",),
    **{f"curriculum.{name}": ("search.n_configurations.CL=16",) for name in ("score", "pacing", "vectors")},
    "search.gpu_hours": ("resources.gpu=1",),
    "search.objectives": ("search.sampler=tpe",),
    "search.pruning": ("seeds=[1, 2, 3, 4]",),
    "search.round_size": ("search.sampler=tpe",),
    "search.teacher_temperature": ('variants=["BERT", "KL"]',),
    "search.weak_temperature": ('variants=["BERT", "LCE", "LCE-WSLS"]',),
    "task.dev_share": ("task.path={folder}/without_dev", "task.dev_share=0.6"),
    "task.candidates_run": (
        "task.name=beir",
        "analysis.metric=MRR",
        "task.candidates_run={folder}/inputs/data/first_stage.run",
    ),
    "task.depth": ("task.evaluation=retrieved", "analysis.metric=MRR", "task.depth=20"),
    "task.evaluation": ("analysis.metric=MRR",),
    "task.evaluation_sampler.encoder": (
        "task.evaluation_sampler.name=dense",
        "task.evaluation_sampler.encoder={folder}/inputs/model",
    ),
    "task.label_noise_kind": ("task.label_noise=0.2",),
    "task.listed_candidates": ("task.candidates=5",),
    "task.relevant_from": ("task.name=beir",),
    "task.sampler.encoder": ("task.sampler.name=dense", "task.sampler.encoder={folder}/inputs/model"),
    "task.sampler.name": ("task.sampler.weak_label=bm25",),
    "task.teacher": (
        'variants=["BERT", "KL"]',
        "task.teacher={folder}/inputs/data/teacher.run",
    ),
    "task.test_relevant_from": ("task.name=beir",),
    "task.test_set": ("task.name=msmarco", "task.path={folder}/msmarco", "task.test_set=trec-dl-2019"),
    "training.batching": ("curriculum.variants=[]",),
    "training.learning_rate": ("search.learning_rate=[]",),
    "training.sampling": ("curriculum.variants=[]",),
}
"""Settings of the tiny study without which a key would change nothing, or would not be allowed to change."""
_N_QUERIES = {"train": 8, "dev": 4, "test": 4}


def write_inputs(folder: Path) -> None:
    """Write the inputs of the tiny studies three times, into `inputs`, `moved` and, with another content, `changed`."""
    for place, word in (("inputs", "word"), ("moved", "word"), ("changed", "other")):
        _write_model(folder / place / "model", word)
        _write_text(folder / place / "vectors.vec", f"2 2\n{word} 0.5 1.0\nthe 1.0 0.5\n")
        _write_ranking_task(folder / place / "data", word)
        _write_sentence_task(folder / place / "data", word)
    _write_ranking_task(folder / "without_dev", "word")
    (folder / "without_dev" / "dev.tsv").unlink()
    _write_test_sets(folder / "msmarco")


def _write_model(folder: Path, word: str) -> None:
    config = {"model_type": "bert", "num_hidden_layers": 6, "max_position_embeddings": 512}
    layers = {f"encoder.layer.{number}.bias": np.zeros(1) for number in range(6)}
    _write_text(folder / "config.json", json.dumps(config))
    _write_text(folder / "tokenizer.json", json.dumps({"word": word}))
    (folder / "model.safetensors").write_bytes(save(layers))


def _write_ranking_task(folder: Path, word: str) -> None:
    """Write the same queries as the task dialogues and as the task beir."""
    corpus, queries = list[str](), list[str]()
    for split, count in _N_QUERIES.items():
        lines, qrels = list[str](), ["query-id\tcorpus-id\tscore"]
        for number in range(count):
            name = f"{split}{number}"
            lines.append(f"1\t{word} {name}\tanswer {name}")
            queries.append(json.dumps({"_id": name, "text": f"{word} {name}"}))
            corpus.append(json.dumps({"_id": name, "text": f"answer {name}"}))
            qrels.append(f"{name}\t{name}\t2")
        _write_text(folder / f"{split}.tsv", "\n".join(lines))
        _write_text(folder / "qrels" / f"{split}.tsv", "\n".join(qrels))
    _write_text(folder / "corpus.jsonl", "\n".join(corpus))
    _write_text(folder / "queries.jsonl", "\n".join(queries))
    _write_text(folder / "teacher.run", f"train0 Q0 train1 1 1.0 {word}")
    names = [f"{split}{number}" for split in ("dev", "test") for number in range(_N_QUERIES[split])]
    _write_text(folder / "first_stage.run", "\n".join(f"{name} Q0 {name} 1 1.0 {word}" for name in names))


def _write_test_sets(folder: Path) -> None:
    """Write MS MARCO with two years of TREC Deep Learning."""
    _write_text(folder / "collection.tsv", "\n".join(f"{number}\tanswer {number}" for number in range(16)))
    for queries, qrels, first in (
        ("queries.train.tsv", "qrels.train.tsv", 0),
        ("queries.dev.tsv", "qrels.dev.tsv", 4),
        ("msmarco-test2019-queries.tsv", "2019qrels-pass.txt", 8),
        ("msmarco-test2020-queries.tsv", "2020qrels-pass.txt", 12),
    ):
        numbers = range(first, first + 4)
        _write_text(folder / queries, "\n".join(f"{number}\tword {number}" for number in numbers))
        _write_text(folder / qrels, "\n".join(f"{number} 0 {number} 2" for number in numbers))


def _write_sentence_task(folder: Path, word: str) -> None:
    sentences = [f"{word} {number}" for number in range(sum(_N_QUERIES.values()))]
    pairs = [f"{first}\t{second}" for first, second in pairwise(sentences)]
    _write_text(folder / "sentences.txt", "\n".join(sentences))
    for split in ("dev", "test"):
        lines = (f"genre\tfile\tyear\t{number}\t2.5\t{pair}" for number, pair in enumerate(pairs))
        _write_text(folder / "STS" / "STSBenchmark" / f"sts-{split}.csv", "\n".join(lines))
    header = "sentence_A\tsentence_B\trelatedness_score"
    _write_text(folder / "SICK" / "SICK_test_annotated.txt", "\n".join([header, *(f"{pair}\t2.5" for pair in pairs)]))


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
