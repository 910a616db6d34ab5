"""What a study would run, share and cost, before anything is spent. Loads neither torch nor ray."""

import json
from pathlib import Path
from statistics import fmean

from study.config import Study, searched
from study.sharing import shared, unshared
from trainables.data.prepared import find


def show(study: Study) -> None:
    """Prints the plan: rows of runs, the instances to train, and what records already tell of time and noise."""
    seeds, instances = len(study.seeds), study.training.instances
    searches = searched(study)
    rows = [("BM25 order", 1, 1, 0), ("untrained", 1, seeds, 0), ("BERT", 1, seeds, instances)]
    rows += [(name, count, count * seeds, instances) for name, count in searches.items()]
    print(f"study {study.name}: task {study.task.name}, model {study.model.name}, seeds {list(study.seeds)}")
    print(f"{'system':12} {'configurations':>14} {'runs':>6} {'instances':>10}")
    for name, configurations, runs, each in rows:
        print(f"{name:12} {configurations:14} {runs:6} {runs * each:10}")
    total, runs = sum(row[2] * row[3] for row in rows), sum(row[2] for row in rows)
    print(f"{'in all':12} {sum(row[1] for row in rows):14} {runs:6} {total:10}")
    print(f"instances to train: {unshared(study)} without sharing, {shared(study)} with equal beginnings trained once")
    print(f"then {len(searches) + 2} systems x {seeds} seeds and BM25 on the test set")
    prepared = find(study.task, study.cache)
    print(f"data: {prepared.fingerprint if prepared else 'unknown until the study has prepared it'}")
    records = [json.loads(path.read_text(encoding="utf-8")) for path in study.folder.glob("runs/*/record.json")]
    done = [entry for entry in records if entry["state"] == "finished"]
    seconds = [entry["summary"]["seconds"] for entry in done if entry["summary"].get("instances_trained")]
    hours = f"{fmean(seconds) * runs / 3600:.2f} trial hours" if seconds else "unknown until a run is recorded"
    print(f"records: {len(done)} runs finished; cost: {hours}")
    print(f"detectable effect: {_detectable(study.folder)}")


def _detectable(folder: Path) -> str:
    path = folder / "report" / "comparisons.json"
    if not path.is_file():
        return "unknown until a first result tells the noise"
    rows = json.loads(path.read_text(encoding="utf-8"))
    found = [row["detectable"] for row in rows if row["family"] == "variants" and row["detectable"] is not None]
    return f"{max(found):.4f} with 80 % power, from the report" if found else "unknown: no complete comparison"
