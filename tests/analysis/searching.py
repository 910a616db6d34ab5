"""Makes a synthetic study with a search: two searched systems, seeds of the search and fresh ones, and search.json."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tests.analysis.builders import Made, plan_of, scores
from trainables.metrics import recall_at
from trainables.utils.hashing import hash_json

GRID: dict[str, list[Any]] = {
    "epsilon": [0.1, 0.2, 0.3, 0.4],
    "schedule": ["two_stage", "linear"],
    "switch": [0.25, 0.5, 0.75],
    "learning_rate": [5e-6, 1.5e-5, 4.5e-5],
}


class Searched(NamedTuple):
    """A study to write."""

    plan: dict[str, Any]
    runs: list[Made]
    search: dict[str, Any]

    @property
    def systems(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self.search["systems"]
        return found


def metric(frame: pd.DataFrame) -> float:
    """R10@1 of a frame as `scores` makes it."""
    ranked = recall_at(1, frame["score"].to_numpy().reshape(-1, 10), frame["relevant"].to_numpy().reshape(-1, 10))
    return float(ranked.mean())


def searched(
    seeds: Sequence[int] = (1, 2, 3),
    fresh: Sequence[int] = (11, 12),
    dropped: Sequence[int] = (),
    failed: Sequence[int] = (),
    proposals: int = 20,
    queries: tuple[int, int] = (30, 40),
    **changes: Any,
) -> Searched:
    """BERT fixed, LS with its four strengths, T-LS with so many proposals; proposals of T-LS dropped after a seed, or
    failed, by number. The first proposal is the untuned default."""
    rng = np.random.default_rng(3)
    wanted = {"LS": [{"epsilon": 0.2}, *({"epsilon": e} for e in (0.1, 0.3, 0.4))], "T-LS": _spread(proposals, rng)}
    runs = [Made("BM25", None, 0.6, tested=True, role="baseline")]
    fixed = [("BERT", 1.5), ("untrained", 0.0)]
    for name, quality in fixed:
        runs += [Made(name, seed, quality, role="baseline") for seed in seeds]
        runs += [Made(name, seed, quality, tested=True, role="confirm") for seed in fresh]
    systems = {}
    states = dict.fromkeys(dropped, "dropped") | dict.fromkeys(failed, "incomplete")
    for name, values in wanted.items():
        lost = [states.get(number, "complete") if name == "T-LS" else "complete" for number in range(len(values))]
        own = [_made(name, value, seeds, state, queries[0]) for value, state in zip(values, lost, strict=True)]
        stored = [
            _proposal(number, state, value, made)
            for number, (state, value, made) in enumerate(zip(lost, values, own, strict=True))
        ]
        systems[name] = _system(name, stored)
        for value, made in zip(values, own, strict=True):
            again = made[0].configuration in (systems[name]["winner"], systems[name]["untuned"])
            won = made[0].configuration == systems[name]["winner"]
            confirmed = [_run(name, value, seed, "confirm", tested=won) for seed in fresh] if again else []
            for run in made if won and not fresh else ():
                run.tested = True
            runs += made + confirmed
    for run in runs:
        run.tested = run.tested or (not fresh and run.variant in ("BERT", "untrained"))
        number = int(run.id[:8], 16)
        run.scores = {"dev": run.scores.get("dev", _dev(run, queries[0]))}
        if run.tested:
            run.scores["test"] = scores("test", queries[1], run.quality, number)
    families = [{"name": "variants", "comparisons": [["LS", "BERT"], ["T-LS", "BERT"]]},
                {"name": "sanity", "comparisons": [["BERT", "BM25"], ["BERT", "untrained"]]}]  # fmt: skip
    declared = {"confirm_seeds": list(fresh), "pruning": "race" if dropped else None}
    plan = plan_of(runs, seeds=list(seeds), systems=["BERT", "LS", "T-LS"], families=families, **declared, **changes)
    return Searched(plan, runs, {"systems": systems})


def told(runs: Sequence[Made]) -> dict[str, Any]:
    """Observations that a search of T-LS may have had; only the winner keeps its runs."""
    winner = next(run.configuration for run in runs if run.variant == "T-LS")
    proposals = []
    for number, values in enumerate(_spread(14, np.random.default_rng(5))):
        state = {3: "dropped", 6: "incomplete", 9: "unknown"}.get(number, "complete")
        key = winner if number == 0 else hash_json(values)
        mean = 0.5 + values["epsilon"] / 4 - (number == 13) / 10
        proposals.append(
            {
                "number": number,
                "configuration_id": key,
                "values": values,
                "state": state,
                "seeds": {"complete": [1, 2], "unknown": []}.get(state, [1]),
                "mean": None if state == "unknown" else mean,
                "reported": mean if state == "complete" else None,
                "untuned": number == 0,
            }
        )
    system = _system("T-LS", proposals)
    return {"systems": {"T-LS": system | {"winner": winner, "stopped": "search.hours", "wanted": 20}}}


def _spread(count: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """The untuned default, then distinct configurations drawn at random."""
    found = [{"epsilon": 0.2, "schedule": "two_stage", "switch": 0.5, "learning_rate": 5e-6}]
    while len(found) < count:
        value = {name: several[rng.integers(len(several))] for name, several in GRID.items()}
        if value["schedule"] == "linear":
            value = {name: end for name, end in value.items() if name != "switch"} | {"end": 0.8}
        if value not in found:
            found.append(value)
    return found


def _run(name: str, values: dict[str, Any], seed: int, role: str, tested: bool = False) -> Made:
    epsilon, switch = values["epsilon"], values.get("switch")
    rate = values.get("learning_rate", 5e-6)
    quality = 1.6 - 8 * (epsilon - 0.3) ** 2 - 2 * ((switch or 0.4) - 0.5) ** 2 + 0.5 * np.log10(rate / 5e-6)
    further = {key: value for key, value in values.items() if key not in ("epsilon", "switch")}
    return Made(name, seed, float(quality), epsilon, switch, tested=tested, further=further, role=role)


def _made(name: str, values: dict[str, Any], seeds: Sequence[int], state: str, queries: int) -> list[Made]:
    made = [_run(name, values, seed, "search") for seed in seeds]
    for run in made:
        run.scores = {"dev": _dev(run, queries)}
    if state == "incomplete":
        made[-1].state = "failed"
    return made[:1] if state == "dropped" else made


def _dev(run: Made, queries: int) -> pd.DataFrame:
    return scores("dev", queries, run.quality, int(run.id[:8], 16))


def _proposal(number: int, state: str, values: dict[str, Any], made: list[Made]) -> dict[str, Any]:
    done = [run for run in made if run.state == "finished"]
    mean = float(np.mean([metric(run.scores["dev"]) for run in done]))
    return {
        "number": number,
        "configuration_id": made[0].configuration,
        "values": values,
        "state": state,
        "seeds": [run.seed for run in done],
        "mean": mean,
        "reported": mean if state == "complete" else None,
        "untuned": number == 0,
    }


def _system(name: str, proposals: list[dict[str, Any]]) -> dict[str, Any]:
    best = max((p for p in proposals if p["state"] == "complete"), key=lambda p: p["mean"])
    grid = GRID if name == "T-LS" else {"epsilon": GRID["epsilon"]}
    return {
        "sampler": "tpe",
        "size": 60 if name == "T-LS" else 4,
        "wanted": len(proposals),
        "proposed": len(proposals),
        "stopped": None,
        "grid": grid,
        "proposals": proposals,
        "winner": best["configuration_id"],
        "untuned": proposals[0]["configuration_id"],
    }
