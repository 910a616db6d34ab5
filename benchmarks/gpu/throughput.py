"""Training and evaluation of rankers of the size of BERT-base, by this engine and by a contender.

The contender is sentence-transformers' CrossEncoderTrainer where it is installed, otherwise a plain loop with dynamic
padding over the model of transformers. Both compute in bf16, attention by scaled_dot_product_attention; only this
engine uses deterministic algorithms.
"""

import gc
import time
from importlib.util import find_spec
from statistics import median

import torch
from transformers import AutoModelForSequenceClassification

from benchmarks import contenders
from benchmarks.contenders import PairList
from benchmarks.gpu import models
from benchmarks.gpu.models import LENGTHS, ModelType
from benchmarks.gpu.parts import Place
from benchmarks.gpu.report import Row, confirmed, measured, not_measured
from benchmarks.measure import Measure, interleaved, rate

_OWN = {"precision": "bf16", "evaluation_precision": "bf16", "tokens_per_micro_batch": 16384}
_KINDS: tuple[ModelType, ...] = ("bert", "modernbert")
_RIVAL_PACKAGES = ("accelerate", "datasets", "sentence_transformers", "sklearn")


def run(place: Place) -> list[Row]:
    """Measures both types with both distributions of lengths; on a processor it runs each measure once."""
    rows, peak = list[Row](), measure_matmul_peak() if place.is_gpu else 0.0
    if place.is_gpu:
        rows.append(measured("square product of 8192 in bf16", [peak], "TFLOP/s", "best of ten"))
    batches, longest = (64, 512) if place.is_gpu else (1, 32)
    for kind in _KINDS:
        for title in LENGTHS:
            path = models.write_model(place.folder, kind, "base" if place.is_gpu else "tiny")
            pairs = models.make_pairs(path, models.draw_lengths(title, batches * contenders.BATCH_SIZE, longest))
            rows += compare(f"{kind}-base, {title}", pairs, place, peak)
    return rows


def compare(title: str, pairs: PairList, place: Place, peak: float) -> list[Row]:
    """Rows of training and evaluation of one model on one list of pairs; the first measure is this engine's."""
    rival, device = choose_rival(), place.device
    works: dict[str, dict[str, Measure]] = {
        "training": {
            "this engine": contenders.own(pairs, device=device, **_OWN),
            rival: make_rival(rival, pairs, device),
        },
        "evaluation": {
            "this engine": make_own_evaluation(pairs, device),
            "dynamic padding": make_padded_evaluation(pairs, device),
        },
    }
    rows = []
    for work, measures in works.items():
        memory = dict[str, int]()
        tracked = {name: track(measure, name, device, memory) for name, measure in measures.items()}
        if not place.is_gpu:
            is_right = all(measure() > 0 for measure in tracked.values())
            rows.append(confirmed(f"{title}: {work}, the code of all", is_right, "with a tiny model"))
            rows += [not_measured(f"{title}: {work}, {name}") for name in tracked]
            continue
        found = interleaved(tracked, place.rounds, place.seconds / 8)
        own = found["this engine"]
        for name, rates in found.items():
            note = f"{memory[name] / 2**30:.1f} GiB at most"
            if rates is not own:
                ratios = [one / other for one, other in zip(own, rates, strict=True)]
                note += f"; this engine {median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}) times as fast"
            elif work == "training":
                share = median(rates) / len(pairs.texts) * models.compute_teraflops(pairs.path, pairs.lengths) / peak
                note += f"; {share:.1%} of the matmul peak"
            rows.append(measured(f"{title}: {work}, {name}", rates, "pairs/s", note))
    return rows


def track(measure: Measure, name: str, device: str, memory: dict[str, int]) -> Measure:
    """The measure with deterministic algorithms for this engine alone; notes the largest memory of its rounds."""

    def measure_and_track() -> float:
        torch.use_deterministic_algorithms(name == "this engine")
        if device == "cuda":
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        try:
            found = measure()
        finally:
            torch.use_deterministic_algorithms(True)
        if device == "cuda":
            memory[name] = max(memory.get(name, 0), torch.cuda.max_memory_allocated())
        return found

    return measure_and_track


def choose_rival() -> str:
    """Name of the best contender of training that is installed."""
    return "CrossEncoderTrainer" if all(map(find_spec, _RIVAL_PACKAGES)) else "plain loop"


def make_rival(name: str, pairs: PairList, device: str) -> Measure:
    """Instances a second of the contender."""
    if name == "CrossEncoderTrainer":
        return contenders.cross_encoder_trainer(pairs, "bf16", device, **list_dropouts(pairs))
    return make_plain_loop(pairs, device)


def make_plain_loop(pairs: PairList, device: str) -> Measure:
    """Instances a second of a loop over batches in random order, each padded to its longest pair."""

    def measure() -> float:
        model = load_padded(pairs, device).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
        contenders.synchronize(device)
        started = time.perf_counter()
        for rows in torch.randperm(len(pairs.texts)).split(contenders.BATCH_SIZE):
            labels = torch.from_numpy(pairs.labels)[rows].to(device)
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = model(**pad(pairs, rows.tolist(), device), labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        contenders.synchronize(device)
        return len(pairs.texts) / (time.perf_counter() - started)

    return measure


def make_own_evaluation(pairs: PairList, device: str) -> Measure:
    """Pairs a second of this engine's evaluation, in batches of pairs of similar length."""
    labels = contenders.label(pairs)

    def measure() -> float:
        trainer = contenders.own_trainer(pairs, device=device, **_OWN)
        contenders.synchronize(device)
        return rate(lambda: trainer.score_pairs(labels), len(pairs.texts))()

    return measure


def make_padded_evaluation(pairs: PairList, device: str) -> Measure:
    """Pairs a second in batches of 128 in the given order, each padded to its longest pair."""

    def measure() -> float:
        model = load_padded(pairs, device).eval()

        def work() -> None:
            with torch.inference_mode(), torch.autocast(device, dtype=torch.bfloat16):
                logits = [
                    model(**pad(pairs, rows.tolist(), device)).logits
                    for rows in torch.arange(len(pairs.texts)).split(128)
                ]
            torch.cat(logits).cpu()

        contenders.synchronize(device)
        return rate(work, len(pairs.texts))()

    return measure


def list_dropouts(pairs: PairList) -> dict[str, float]:
    """Settings that give the model of transformers dropout 0.1 where it has none by default."""
    names = ("attention_dropout", "mlp_dropout", "embedding_dropout", "classifier_dropout")
    return dict.fromkeys(names, 0.1) if "modernbert" in pairs.path.name else {}


def load_padded(pairs: PairList, device: str) -> torch.nn.Module:
    """The model of transformers with a classifier and dropout 0.1."""
    model: torch.nn.Module = AutoModelForSequenceClassification.from_pretrained(
        pairs.path, num_labels=2, attn_implementation="sdpa", dtype=torch.float32, **list_dropouts(pairs)
    )
    return model.to(device)


def pad(pairs: PairList, rows: list[int], device: str) -> dict[str, torch.Tensor]:
    """Inputs of the model for these pairs, on its device."""
    features = [{name: pairs.encoded[name][row] for name in pairs.encoded} for row in rows]
    return {name: values.to(device) for name, values in pairs.tokenizer.pad(features, return_tensors="pt").items()}


def measure_matmul_peak(size: int = 8192) -> float:
    """TFLOP/s of a square product in bf16: the best of ten."""
    left, right = (torch.randn(size, size, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    rates = []
    for _ in range(10):
        torch.cuda.synchronize()
        started = time.perf_counter()
        left @ right
        torch.cuda.synchronize()
        rates.append(2 * size**3 / (time.perf_counter() - started) / 1e12)
    return max(rates)
