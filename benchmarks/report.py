"""How long the report of a large study takes, read from its records: a synthetic study, written and then reported.

python -m benchmarks.report [RUNS]
"""

import json
import math
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from trainables.utils.hashing import hash_json

_SEEDS, _FRESH = (1, 2, 3, 4, 5), (11, 12, 13, 14, 15)
_QUERIES, _CANDIDATES = 200, 10
_SYSTEMS = ("LS", "T-LS", "WSLS", "T-WSLS")
_GRID: dict[str, list[float]] = {
    "epsilon": [round(0.01 * step, 2) for step in range(1, 51)],
    "switch": [round(0.05 * step, 2) for step in range(1, 20)],
    "learning_rate": [1e-6, 3e-6, 1e-5, 3e-5, 1e-4],
    "batch_size": [16, 32, 64],
}


class Configuration(NamedTuple):
    """A point of a system's grid and how good it is."""

    system: str
    values: dict[str, Any]
    quality: float

    @property
    def id(self) -> str:
        """Of all its seeds."""
        return hash_json([self.system, self.values])


def study(folder: Path, runs: int) -> None:
    """Writes plan.json, search.json and the records of so many runs: 200 development queries, few of them tested."""
    rng = np.random.default_rng(0)
    wanted = (runs - (len(_SYSTEMS) + 2) * len(_FRESH) - 2 * len(_SEEDS) - 1) // len(_SEEDS)
    plan, systems = _plan(), {}
    write = _Writer(folder, plan, rng)
    write.run(Configuration("BM25", {}, 0.6), None, "baseline", tested=True)
    for name, quality in (("BERT", 1.5), ("untrained", 0.0)):
        for seed in _SEEDS:
            write.run(Configuration(name, {}, quality), seed, "baseline")
        for seed in _FRESH:
            write.run(Configuration(name, {}, quality), seed, "confirm", tested=True)
    for place, name in enumerate(_SYSTEMS):
        count = wanted // len(_SYSTEMS) + (place < wanted % len(_SYSTEMS))
        proposed = [_configuration(name, rng) for _ in range(3 * count)]
        own = list({one.id: one for one in proposed}.values())[:count]
        means = [float(np.mean([write.run(one, seed, "search") for seed in _SEEDS])) for one in own]
        best = own[int(np.argmax(means))]
        for seed in _FRESH:
            write.run(best, seed, "confirm", tested=True)
        systems[name] = _search(own, means, best)
    (folder / "plan.json").write_text(json.dumps({"plan": plan, "hash": hash_json(plan)}))
    (folder / "search.json").write_text(json.dumps({"systems": systems}))


class _Writer:
    """Writes records. Of a run's scores only the scores differ, so the other columns are made once."""

    def __init__(self, folder: Path, plan: dict[str, Any], rng: np.random.Generator) -> None:
        self._folder, self._plan, self._hash, self._rng = folder, plan, hash_json(plan), rng
        rows = _QUERIES * _CANDIDATES
        self._relevant = np.tile(np.eye(1, _CANDIDATES, dtype=np.int8)[0], _QUERIES)
        self._hard = {split: rng.normal(0, 1, rows) for split in ("dev", "test")}
        self._columns = {
            split: {
                "split": pa.array([split] * rows),
                "query_id": pa.array([f"{split}-{row // _CANDIDATES}" for row in range(rows)]),
                "document_id": pa.array([f"document-{row * 7919 % 100_003}" for row in range(rows)]),
                "relevant": pa.array(self._relevant),
            }
            for split in ("dev", "test")
        }

    def run(self, one: Configuration, seed: int | None, role: str, tested: bool = False) -> float:
        """Writes a run and returns its development metric."""
        key = hash_json([one.id, seed])
        place = self._folder / "runs" / key
        place.mkdir(parents=True)
        curve = [{"instances": 320 * step, "train/loss": 0.7 * math.exp(-step / 30)} for step in range(100)]
        value = self._scores("dev", one.quality, place / "scores.parquet")
        summary = {"state": "finished", "dev/R10@1": value, "seconds": 60.0}
        config = self._config(one, seed, role, key)
        record = {"id": key, "configuration_id": one.id, "state": "finished", "config": config, "summary": summary}
        (place / "record.json").write_text(json.dumps(record, indent=1))
        (place / "history.json").write_text(json.dumps([*curve, {"instances": 32_000, "dev/R10@1": value}], indent=1))
        if tested:
            metric = self._scores("test", one.quality, place / "test_scores.parquet")
            (place / "test.json").write_text(json.dumps({"id": key, "summary": {"test/R10@1": metric}}))
        return value

    def _scores(self, split: str, quality: float, path: Path) -> float:
        scores = self._hard[split] + self._rng.normal(0, 0.3, len(self._relevant)) + quality * self._relevant
        parquet.write_table(pa.table({**self._columns[split], "score": pa.array(scores)}), path)
        return float((scores.reshape(-1, _CANDIDATES).argmax(axis=1) == 0).mean())

    def _config(self, one: Configuration, seed: int | None, role: str, key: str) -> dict[str, Any]:
        unset = dict.fromkeys(
            ("epsilon", "switch", "end", "rate", "a", "b", "learning_rate", "batch_size", "negatives")
        )
        training = {"instances": 32_000, "batch_size": 32, "learning_rate": 1e-5, "evaluation_precision": "fp32"}
        return {
            "study": self._plan["study"],
            "plan_hash": self._hash,
            "specification_id": key,
            "configuration_id": one.id,
            "task": self._plan["task"],
            "variant": one.system,
            "distribution": "uniform",
            "schedule": "two_stage" if "switch" in one.values else "constant",
            **unset,
            **one.values,
            "seed": seed,
            "role": role,
            "specification": {"training": training | {f"setting_{number}": number for number in range(30)}},
        }


def _plan() -> dict[str, Any]:
    pairs = [[name, "BERT"] for name in _SYSTEMS]
    return {
        "study": "large",
        "task": "synthetic",
        "alpha": 0.05,
        "seeds": list(_SEEDS),
        "confirm_seeds": list(_FRESH),
        "metric": "R10@1",
        "systems": ["BERT", *_SYSTEMS],
        "expected_queries": {"dev": _QUERIES, "test": _QUERIES},
        "families": [
            {"name": "variants", "comparisons": pairs},
            {"name": "sanity", "comparisons": [["BERT", "BM25"], ["BERT", "untrained"]]},
        ],
    }


def _configuration(system: str, rng: np.random.Generator) -> Configuration:
    names = [name for name in _GRID if name != "switch" or system.startswith("T-")]
    values = {name: _GRID[name][rng.integers(len(_GRID[name]))] for name in names}
    quality = 1.6 - 4 * (values["epsilon"] - 0.2) ** 2 - 0.2 * abs(math.log10(values["learning_rate"]) + 5)
    return Configuration(system, values, quality - (values.get("switch", 0.5) - 0.5) ** 2)


def _search(own: list[Configuration], means: list[float], best: Configuration) -> dict[str, Any]:
    proposals = [
        {
            "number": number,
            "configuration_id": one.id,
            "values": one.values,
            "state": "complete",
            "seeds": list(_SEEDS),
            "objectives": {"R10@1": mean},
            "told": [mean],
            "untuned": False,
        }
        for number, (one, mean) in enumerate(zip(own, means, strict=True))
    ]
    grid = {name: _GRID[name] for name in own[0].values}
    size = math.prod(map(len, grid.values()))
    counted = {"size": size, "wanted": len(own), "proposed": len(own), "stopped": None}
    return {"sampler": "tpe", **counted, "grid": grid, "proposals": proposals, "winner": best.id, "front": [best.id],
            "untuned": own[0].id}  # fmt: skip


def main() -> None:
    """Prints the time of the whole command, interpreter and imports included."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as name:
        folder, started = Path(name), time.perf_counter()
        study(folder, runs)
        made = len(list((folder / "runs").iterdir()))
        print(f"{platform.machine()}, Python {platform.python_version()}: {made} runs written in "
              f"{time.perf_counter() - started:.0f} s", flush=True)  # fmt: skip
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "analysis.report", name], check=True, stdout=subprocess.DEVNULL)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"  reported in {time.perf_counter() - started:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of a core, "
              f"{used.ru_maxrss / 1024:.0f} MB", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
