"""Writes the folder of a synthetic suite: two samplers by two tasks, with queries of their own."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.analysis.builders import PLAN, Made, plan_of, scores, study_runs, write_records
from trainables.utils.hashing import hash_json

TASKS, SAMPLERS = ("QQP", "MANtIS"), ("BM25", "random")
PAIRS = PLAN["families"][0]["comparisons"]


def runs_of(number: int, queries: str) -> list[Made]:
    """The runs of a study, with other scores than those of another number; `queries` is part of their ids."""
    runs = study_runs(grid=False)
    for run in runs:
        seed = int(run.id[:8], 16) + 1000 * number
        run.scores = {split: scores(split, count, run.quality, seed) for split, count in (("dev", 40), ("test", 60))}
        for frame in run.scores.values():
            frame["query_id"] = queries + frame["query_id"]
    return runs


def suite_plan(**changes: Any) -> dict[str, Any]:
    studies = [
        {
            "key": f"{sampler}-{task}".lower(),
            "study": f"synthetic-{sampler}-{task}".lower(),
            "project": "synthetic",
            "labels": {"sampler": sampler, "task": task},
            "metric": "R10@1",
            "comparisons": PAIRS,
        }
        for sampler in SAMPLERS
        for task in TASKS
    ]
    axes = {"sampler": list(SAMPLERS), "task": list(TASKS)}
    return {
        "suite": "synthetic", "columns": "task", "axes": axes, "alpha": 0.05, "correction": "bonferroni",
        "version": 1, "replaces": None, "studies": studies, "published": None, **changes,
    }  # fmt: skip


def write_suite(
    folder: Path,
    same_queries: bool = False,
    left_out: tuple[str, ...] = (),
    depths: Mapping[str, int] | None = None,
    pairs: list[list[str]] | None = None,
    **changes: Any,
) -> None:
    """The suite with the records of its studies; queries of two tasks differ by their task.

    `pairs` are the comparisons of the first family. `depths` are the studies with candidates of a first stage;
    the metric is then MRR.
    """
    plan = suite_plan(**changes)
    folder.mkdir(parents=True)
    (folder / "suite.json").write_text(json.dumps({"plan": plan, "hash": hash_json(plan)}))
    for number, study in enumerate(plan["studies"]):
        if study["key"] not in left_out:
            runs = runs_of(number, "" if same_queries else study["labels"]["task"])
            own = plan_of(runs, study=study["study"], alpha=plan["alpha"])
            own |= {"metric": "MRR"} if depths else {}
            if pairs:
                own["families"][0]["comparisons"] = pairs
            if depth := (depths or {}).get(study["key"]):
                own |= {"first_stage": {"source": f"the first {depth} documents of a run", "depth": depth}}
                for frame in (frame for run in runs for frame in run.scores.values()):
                    frame["grade"] = frame["relevant"].astype(int)
            write_records(folder / study["key"], own, runs)
