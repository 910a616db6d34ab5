"""On a study's PYTHONPATH this breaks training in its trials, as FAULTS in the environment says.

FAULTS is JSON, the fault by "EPSILON SEED"; each that happens is a line in the file FAULTS_LOG. Python imports this
module at its start; it waits for the trainer to be imported and then puts itself in between.
"""

import ctypes
import json
import os
import signal
from pathlib import Path

from tests.after_import import after_import

FAULTS = json.loads(os.environ.get("FAULTS", "{}"))


def happen(fault: str) -> None:
    log = Path(os.environ["FAULTS_LOG"])
    before = log.read_text().splitlines() if log.exists() else []
    with log.open("a") as file:
        file.write(f"{fault}\n")
    if fault == "raise":
        raise RuntimeError("no good in /home/somebody/secret/place, said 10.1.2.3:80")
    if fault == "raise once" and fault not in before:
        raise RuntimeError("only once")
    if fault == "allocate":
        kept = []
        while True:
            kept.append(bytearray(64 * 2**20))
    if fault == "hang":
        ctypes.PyDLL(None).pause()  # in C, and the interpreter's lock is never given back
    if fault == "be killed" or (fault == "be killed once" and fault not in before):
        os.kill(os.getpid(), signal.SIGKILL)


def break_trainer(module) -> None:
    train, scores = module.RankerTrainer.train, module.RankerTrainer.score_pairs

    def broken_train(self, segment, until, pairs, after_step=None):
        if not hasattr(self, "fault"):  # a trainer trains in several stretches, and is made again for every try
            self.fault = FAULTS.get(f"{segment.smoothing.epsilon} {self.seed}")
            if self.fault is not None:
                happen(self.fault)
        train(self, segment, until, pairs, after_step)

    def broken_scores(self, pairs, precision=None):
        found = scores(self, pairs, precision)
        if getattr(self, "fault", None) == "score nan":
            found[:3] = float("nan")
        return found

    module.RankerTrainer.train, module.RankerTrainer.score_pairs = broken_train, broken_scores


if FAULTS:
    after_import("trainables.rankers.ranker_trainer", break_trainer)
