"""Makes a synthetic study and writes its records; `tests.analysis.logged` writes the same runs to W&B."""

import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis import figures
from analysis.data.study_results import Results
from analysis.readers.study_reader import read_records
from analysis.report import Report, write_report
from analysis.stats.comparison import Comparison
from analysis.tables.main import ReportData, build_report_data
from trainables.utils.checksums import hash_file
from trainables.utils.hashing import hash_json

DATA = {
    "fingerprint": "0123456789abcdef",
    "documents": 100,
    "skipped": {"pair with an empty question": 3},
    "splits": {
        "train": {"queries": 10, "pool": 80, "back_filled": 7, "relevant": 12},
        "dev": {"queries": 40, "pool": 90, "back_filled": 0, "relevant": 40},
    },
    "weak_labels": {"mean": 0.31, "shares": [0.4, 0.3, 0.2, 0.1]},
}
STATISTICS: dict[str, Any] = {
    "columns": ["train", "dev", "test"],
    "rows": [
        {"name": "queries", "decimals": 0, "values": [1234, 40, 60]},
        {"name": "words per query", "decimals": 1, "values": [8.0, 7.26, None]},
    ],
    "legend": "Words are separated by white space.",
}
"""Statistics of the data; one mean is whole, which W&B returns as an integer."""
SETUP = {"model": "org/bert", "data": "docstrings: texts", "date": "2026-07-31", "commit": "0123abc+"}
"""What a start writes next to the plan."""
SETTINGS: dict[str, Any] = {
    "model": {
        "name": "sha256:0123456789abcdef",
        "num_layers": None,
        "frozen_layers": 3,
        "max_length": 40,
        "lora": {"rank": 4, "alpha": 16.0, "dropout": 0.0},
    },
    "task": {
        "candidates": 10,
        "train_negatives": 20,
        "sampler": {"name": "random"},
        "evaluation_sampler": {"name": "bm25"},
    },
    "training": {"instances": 8192, "batch_size": 32, "learning_rate": 5e-6, "negatives": 9},
    "search": {"learning_rate": [1e-5, 2e-5], "lora": {"rank": [4, 16]}},
}
"""Settings that the report shows, by section of the plan."""
ENVIRONMENT = {"device": "cpu", "instruction_set": "x86_64-Vendor-avx2", "torch": "2.13.0"}
TRAINED = {
    "training": {
        "instances": 640,
        "precision": "fp32",
        "evaluation_precision": "fp32",
        "threads": 1,
    },
    "model": {"max_length": 40},
    "environment": ENVIRONMENT,
}
PLAN: dict[str, Any] = {
    "data": DATA,
    "study": "synthetic",
    "version": 1,
    "task": "docstrings",
    "alpha": 0.05,
    "seeds": [1, 2, 3],
    "metric": "R10@1",
    "search_split": "dev",
    "test_split": "test",
    "systems": ["BERT", "LS", "T-LS", "WSLS", "T-WSLS"],
    "families": [
        {
            "name": "variants",
            "correction": "bonferroni",
            "comparisons": [["LS", "BERT"], ["T-LS", "BERT"], ["WSLS", "BERT"], ["T-WSLS", "BERT"], ["T-WSLS", "T-LS"]],
        },
        {"name": "sanity", "correction": "bonferroni", "comparisons": [["BERT", "BM25"], ["BERT", "untrained"]]},
    ],
}


@dataclass
class Made:
    """One run to write. `quality` is added to the relevant document's score."""

    variant: str
    seed: int | None
    quality: float
    epsilon: float = 0.0
    switch: float | None = None
    state: str = "finished"
    tested: bool = False
    further: dict[str, Any] = field(default_factory=dict)
    """Other hyperparameters: schedule, end, learning_rate, ..."""
    role: str = "search"
    scores: dict[str, pd.DataFrame] = field(default_factory=dict)
    metric: str = "R10@1"
    truncated: int = 0
    """Number of the 1,300 texts that are cut."""

    @property
    def configuration(self) -> str:
        return hash_json([self.variant, self.epsilon, self.switch, self.further])

    @property
    def id(self) -> str:
        return hash_json([self.configuration, self.seed])

    def config(self, plan: dict[str, Any]) -> dict[str, Any]:
        return {
            "study": plan["study"],
            "plan_hash": hash_json(plan),
            "specification_id": self.id,
            "configuration_id": self.configuration,
            "task": plan["task"],
            "variant": self.variant,
            "distribution": "none",
            "schedule": "two_stage" if self.switch else "constant",
            "epsilon": self.epsilon,
            "switch": self.switch,
            **dict.fromkeys(("end", "rate", "a", "b")),
            "learning_rate": None if self.variant == "BM25" else 5e-6,
            "batch_size": None if self.variant == "BM25" else 32,
            "negatives": None if self.variant == "BM25" else 9,
            **self.further,
            "seed": self.seed,
            "role": self.role,
            "specification": {
                **self.trained(),
                "variant": {"epsilon": self.epsilon, "switch": self.switch},
            },
        }

    def trained(self) -> dict[str, Any]:
        if self.variant == "BM25":
            return {}
        return (
            {**TRAINED, "training": {**TRAINED["training"], "instances": 0}} if self.variant == "untrained" else TRAINED
        )

    def history(self) -> list[dict[str, Any]]:
        if self.seed is None or self.variant == "untrained":
            return []
        rng = np.random.default_rng(int(self.id, 16) % 2**32)
        rows: list[dict[str, Any]] = []
        for seen in range(0, 640, 32):
            loss = 0.3 + 0.4 * np.exp(-seen / 200) + self.epsilon / 4 + rng.normal(0, 0.01)
            rows.append(
                {"instances": seen, "train/loss": loss, "train/learning_rate": 5e-6, "train/epsilon": self.epsilon}
            )
        key = f"dev/{self.metric}"
        dev = {"instances": 640, key: 0.5 + self.quality / 10 + rng.normal(0, 0.005)}
        return [*rows, {"instances": 320, key: dev[key] - 0.1 + rng.normal(0, 0.005)}, dev]

    def summary(self) -> dict[str, Any]:
        values: dict[str, Any] = {"state": self.state, "seconds": 1.5, "instances_trained": 640, "instances_reused": 0}
        if self.variant != "BM25":
            values |= {"texts": 1300, "texts_truncated": self.truncated}
        return values | ({"error": "out of memory"} if self.state == "failed" else {f"dev/{self.metric}": 0.5})


def scores(split: str, queries: int, quality: float, seed: int, candidates: int = 10) -> pd.DataFrame:
    """Candidates of a split; query effects are the same for every seed: runs are correlated, as real ones are."""
    hard = np.random.default_rng(7).normal(0, 1.0, (queries, candidates))
    values = hard + np.random.default_rng([seed, 11]).normal(0, 0.3, (queries, candidates))
    values[:, 0] += quality
    names = np.arange(queries)
    return pd.DataFrame(
        {
            "split": split,
            "query_id": [f"{split}-{name}" for name in np.repeat(names, candidates)],
            "document_id": [f"d{name}" for name in np.tile(np.arange(candidates), queries)],
            "relevant": np.tile(np.eye(1, candidates, dtype=np.int8)[0], queries),
            "score": values.ravel(),
        }
    )


def queries_of(dev: int = 40, test: int = 60) -> pd.DataFrame:
    """Known properties of the queries of `scores`, in no order."""
    rng = np.random.default_rng(19)
    frames = []
    for split, count in (("dev", dev), ("test", test)):
        columns = {
            "turns": rng.geometric(0.5, count),
            "domain": rng.choice(["apple", "travel", "gaming"], count, p=[0.6, 0.3, 0.1]),
            "difficulty/turns": rng.integers(1, 6, count).astype(float),
            "difficulty/BERT_loss": rng.normal(0, 1, count),
        }
        names = [f"{split}-{number}" for number in range(count)]
        frames.append(pd.DataFrame({"split": split, "query_id": names, **columns}))
    return pd.concat(frames).sample(frac=1, random_state=1, ignore_index=True)


def study_runs(seeds: tuple[int, ...] = (1, 2, 3), dev: int = 40, test: int = 60, grid: bool = True) -> list[Made]:
    """A small study: every variant's chosen configuration tested, a few others searched, BM25 and untrained."""
    runs = [Made("BM25", None, 0.6, tested=True)]
    for seed in seeds:
        runs += [
            Made("BERT", seed, 1.5, tested=True),
            Made("untrained", seed, 0.0, tested=True),
            Made("LS", seed, 1.4, 0.2, tested=True),
            Made("T-LS", seed, 1.6, 0.2, 0.5, tested=True),
            Made("WSLS", seed, 1.5, 0.3, tested=True),
            Made("T-WSLS", seed, 2.8, 0.2, 0.5, tested=True),
        ]
        if grid:
            runs += [Made(name, seed, 1.2 + e, e) for name in ("LS", "WSLS") for e in (0.1, 0.4)]
            settings = ((0.1, 0.5), (0.4, 0.5), (0.2, 0.25), (0.4, 0.25))
            runs += [Made(name, seed, 1.4 + e, e, s) for name in ("T-LS", "T-WSLS") for e, s in settings]
    for run in runs:
        number = int(run.id[:8], 16)
        run.scores = {"dev": scores("dev", dev, run.quality, number)}
        if run.tested:
            run.scores["test"] = scores("test", test, run.quality, number)
    return runs


def plan_of(runs: list[Made], **changes: Any) -> dict[str, Any]:
    expected = {split: frame["query_id"].nunique() for run in runs for split, frame in run.scores.items()}
    return {**copy.deepcopy(PLAN), "expected_queries": expected, **changes}


def write_records(
    folder: Path,
    plan: dict[str, Any],
    runs: list[Made],
    search: dict[str, Any] | None = None,
    queries: pd.DataFrame | None = None,
    statistics: dict[str, Any] | None = None,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if search is not None:
        (folder / "search.json").write_text(json.dumps(search))
    if queries is not None:
        queries.to_parquet(folder / "queries.parquet", index=False)
    if statistics is not None:
        (folder / "data.json").write_text(json.dumps(statistics))
    (folder / "plan.json").write_text(json.dumps({"plan": plan, "hash": hash_json(plan), "setup": SETUP}))
    for run in runs:
        place = folder / "runs" / run.id
        place.mkdir(parents=True)
        record = {
            "id": run.id,
            "configuration_id": run.configuration,
            "state": run.state,
            "config": run.config(plan),
            "summary": run.summary(),
        }
        if history := run.history():
            (place / "history.json").write_text(json.dumps(history))
            record["history_sha256"] = hash_file(place / "history.json")
        (place / "record.json").write_text(json.dumps(record))
        if run.state == "finished":
            run.scores["dev"].to_parquet(place / "scores.parquet", index=False)
            if "test" in run.scores:
                run.scores["test"].to_parquet(place / "test_scores.parquet", index=False)
                tested = {"state": "finished", "config": record["config"], "summary": {f"test/{run.metric}": 0.5}}
                (place / "test.json").write_text(json.dumps(tested))


def analyse(folder: Path, runs: list[Made], queries: pd.DataFrame | None = None, **changes: Any) -> ReportData:
    """Write the records of a study with these changes of its plan, and analyse them."""
    write_records(folder, plan_of(runs, **changes), runs, queries=queries)
    return build_report_data(read_records(folder))


def report_of(folder: Path, runs: list[Made], **changes: Any) -> Report:
    """Write the records of a study with these changes of its plan, and its report, to study and report in a folder."""
    write_records(folder / "study", plan_of(runs, **changes), runs)
    return write_texts(read_records(folder / "study"), folder / "report")


def write_texts(results: Results, folder: Path) -> Report:
    """Write a report without figures, which take longest."""
    with pytest.MonkeyPatch.context() as patch:
        leave_figures_empty(patch)
        return write_report(results, folder)


def content_of(results: Results) -> tuple[object, ...]:
    """Content of every source of a study: records know neither the runs that still train nor a server's address."""
    queries = None if results.queries is None else results.queries.to_csv()
    runs = [(run.id, run.config, run.summary, run.history) for run in results.runs]
    return results.plan, results.plan_hash, runs, results.search, queries, results.statistics, results.setup


def leave_figures_empty(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Let reports have empty figures of these names instead of their own."""

    def draw(_: ReportData, folder: Path) -> list[str]:
        for name in names:
            (folder / f"{name}.png").touch()
            (folder / f"{name}.svg").touch()
        return list(names)

    patch.setattr(figures, "draw_figures", draw)


def get_comparison(analysis: ReportData, system: str, baseline: str) -> Comparison:
    """Return the comparison of two systems."""
    (found,) = (c for c in analysis.comparisons if (c.system, c.baseline) == (system, baseline))
    return found
