"""What Weights & Biases costs a study: the logger over a finished study's records, beside the time the runs took.

python -m benchmarks.tracking [FOLDER] [REPEATS]

FOLDER is a finished study, by default results/quick. Its records are copied, without what W&B has of them, and written
again: offline, and online to a server on this machine (`tests/wandb_server`). Told is the wall time an evaluation from
order to done, which bounds from above what the logger and the client's service compute, and its share of the mean time
of a run's training or test; a study pays less, since the logger works beside trials that it does not keep waiting.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean, median

from study.config.schema import TrackingMode
from study.records import run_record as record
from study.records.run_store import RunStore
from study.tracking import Tracking, WandbLogger
from tests.wandb_server import Server


def written(folder: Path, mode: TrackingMode) -> tuple[float, int]:
    """Seconds to write all evaluations of a study after the start of the logger, and how many they are."""
    run_store = RunStore(folder)
    logger = WandbLogger(Tracking(mode=mode, project="benchmark", folder=folder), print)
    logger.log_document("plan")
    if not logger.flush():
        raise RuntimeError(logger.failure_reason)
    wanted = [
        (run_id, split)
        for run_id in run_store.list_run_ids()
        for split in record.SPLITS
        if run_store.is_finished(run_id, split)
    ]
    started = time.monotonic()
    for run_id, split in wanted:
        logger.log_evaluation(run_id, split)
    if not logger.flush():
        raise RuntimeError(logger.failure_reason)
    seconds = time.monotonic() - started
    logger.close()
    return seconds, len(wanted)


def main(reference: Path, repeats: int) -> None:
    """Prints seconds an evaluation and their share."""
    spent = [
        json.loads(path.read_bytes())["summary"][key]
        for name, key in (("record.json", "seconds"), ("test.json", "test/seconds"))
        for path in reference.glob(f"runs/*/{name}")
    ]
    print(f"{reference}: {len(spent)} evaluations, each {fmean(spent):.1f} s of a trial (median {median(spent):.1f} s)")
    with tempfile.TemporaryDirectory() as name, Server(Path(name, "server")) as server:
        os.environ |= server.environment()
        modes: tuple[TrackingMode, TrackingMode] = ("offline", "online")
        found: dict[str, list[float]] = {mode: [] for mode in modes}
        for repeat in range(repeats):
            for mode in modes:
                folder = Path(name, f"{mode}-{repeat}")
                left_out = shutil.ignore_patterns("wandb", "report", "mirrored-*.json")
                shutil.copytree(reference, folder, ignore=left_out)
                seconds, count = written(folder, mode)
                found[mode].append(seconds / count)
        for mode, values in found.items():
            print(
                f"{mode}: {median(values):.3f} s an evaluation ({min(values):.3f}-{max(values):.3f}), "
                f"{median(values) / fmean(spent):.1%} of a trial's time; the bar is 2 %"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results/quick"), int(sys.argv[2]) if len(sys.argv) > 2 else 3)
