"""Makes a synthetic study of sentence encoders; `tests.analysis.builders` and `logged` write it as any other."""

from typing import Any

import numpy as np
import pandas as pd

from tests.analysis.builders import Made

SETS = ("STS12", "STS13", "STS-B")
SUBSETS = {"dev": {"STS-B": 60, "STS12/a": 30, "STS12/b": 25}, "test": {"STS12/a": 40, "STS12/b": 30, "STS13/c": 50,
           "STS-B": 80}}  # fmt: skip
"""Pairs of each subset; a true study has only STS-B in dev."""
SHARED = {"dev": 0, "test": 10}
"""The first pairs of STS-B that are those of STS12's first subset."""
PLAN: dict[str, Any] = {
    "study": "synthetic",
    "version": 1,
    "task": "sentences",
    "unit": "sentence pair",
    "hyperparameters": ["weight", "multiple", "deviation", "schedule", "switch", "learning_rate", "batch_size"],
    "alpha": 0.05,
    "seeds": [1, 2, 3],
    "metric": "STS",
    "search_split": "dev",
    "test_split": "test",
    "systems": ["SimCSE", "GS-InfoNCE", "T-GS-InfoNCE"],
    "families": [
        {
            "name": "variants",
            "correction": "bonferroni",
            "comparisons": [["GS-InfoNCE", "SimCSE"], ["T-GS-InfoNCE", "SimCSE"]],
            "metrics": [f"STS/{name}" for name in SETS],
        },
        {
            "name": "mean",
            "correction": "bonferroni",
            "comparisons": [["GS-InfoNCE", "SimCSE"], ["T-GS-InfoNCE", "SimCSE"]],
        },
    ],
    "data": {
        "fingerprint": "0123456789abcdef",
        "skipped": {"blank sentence": 3},
        "splits": {"train": {"queries": 1000}, "dev": {"queries": 115}, "test": {"queries": 190}},
        "sets": SUBSETS,
    },
    "expected_queries": {"dev": 115, "test": 190},
}


def similarities(split: str, quality: float, seed: int) -> pd.DataFrame:
    """Cosines of a split that agree with the gold similarities by `quality`; the pairs are the same for every run."""
    frames = []
    for number, (name, count) in enumerate(SUBSETS[split].items()):
        pairs, own = (np.random.default_rng([number, *key]) for key in ((3,), (seed, 11)))
        gold = np.round(pairs.uniform(0, 25, count)) / 5
        noise = pairs.normal(0, 1.0, count) + own.normal(0, 0.5, count)
        frames.append(
            pd.DataFrame(
                {
                    "split": split,
                    "query_id": name,
                    "document_id": [str(line) for line in range(1, count + 1)],
                    "relevant": gold,
                    "score": np.tanh(quality * (gold / 5 - 0.5) + 0.3 * noise),
                    "pair_id": [f"{name} {line}" for line in range(1, count + 1)],
                }
            )
        )
    made, again = pd.concat(frames, ignore_index=True), ["relevant", "score", "pair_id"]
    first, benchmark = ((made["query_id"] == name).to_numpy().nonzero()[0] for name in ("STS12/a", "STS-B"))
    made.loc[benchmark[: SHARED[split]], again] = made.loc[first[: SHARED[split]], again].to_numpy()
    return made.infer_objects()


def encoder_runs(seeds: tuple[int, ...] = (1, 2, 3), tested: bool = True) -> list[Made]:
    """SimCSE, GS-InfoNCE, which is like it, and T-GS-InfoNCE, which is better."""
    runs = []
    for seed in seeds:
        for name, quality, further in (
            ("SimCSE", 0.8, {"distribution": "none"}),
            ("GS-InfoNCE", 0.8, {"distribution": "gaussian", "multiple": 3.0}),
            ("T-GS-InfoNCE", 1.6, {"distribution": "gaussian", "multiple": 3.0}),
        ):
            settings = {"negatives": None, "learning_rate": 3e-5, "batch_size": 64, **further}
            switch = 0.5 if name.startswith("T-") else None
            runs.append(Made(name, seed, quality, switch=switch, tested=tested, further=settings, metric="STS"))
    for run in runs:
        number = int(run.id[:8], 16)
        run.scores = {"dev": similarities("dev", run.quality, number)}
        if run.tested:
            run.scores["test"] = similarities("test", run.quality, number)
    return runs


def encoder_plan(runs: list[Made], **changes: Any) -> dict[str, Any]:
    return {**PLAN, "seeds": sorted({run.seed for run in runs if run.seed is not None}), **changes}
