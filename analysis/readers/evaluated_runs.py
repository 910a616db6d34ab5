"""Evaluates runs by a metric of ir_measures, query by query, as a table of scores.

The queries are those of the qrels, as in trec_eval -c: a query of a run without judgements is left out, a judged query
that a run lacks counts as if nothing had been retrieved.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from glob import escape, glob
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.data.score_table import join_names
from analysis.readers.predictions import read_predictions
from trainables.text.text_files import BYTE_ORDER_MARK, open_binary
from trainables.text.trec_files import TrecRun, group_qrels, read_trec_qrels, read_trec_run
from trainables.utils.errors import UserError

if TYPE_CHECKING:
    import ir_measures

_METRICS = "a metric of ir_measures, such as nDCG@10, AP, RR@10, R@100 or P@5"
_QUERIES_AT_ONCE = 500
"""Queries that are evaluated together, which bounds the memory."""
_Path = Path | str


def read_runs(
    qrels: _Path,
    runs: Mapping[str, _Path | Sequence[_Path] | Mapping[int, _Path]],
    metric: str,
    log: Callable[[str], object] = lambda line: None,
) -> pd.DataFrame:
    r"""Evaluate runs per query, as a table of scores for `analysis.compare.compare`.

    Ties are broken as the provider of ir_measures does it. pytrec_eval, which computes most metrics, does it as
    trec_eval: scores are compared in single precision, and documents with equal scores are in descending order of their
    ids.

    Args:
        qrels: qrels of TREC or BEIR, plain or compressed with gzip.
        runs: files of each system: TREC runs, plain or compressed, or predictions as `predictions.read_predictions`
            reads them. Several files of a system are its seeds 1, 2, ... in their order, or by the numbers that they
            are given under. A system with one file has no seed.
        metric: name of a metric that ir_measures computes per query, such as nDCG@10, or of trec_eval, such as map.
        log: is called with each line about what was evaluated, counted as 0 or left out, for example `print`.

    Returns:
        Columns system, query and value, and seed if a system has several files.

    Raises:
        UserError: if a file cannot be read or is not valid, the metric cannot be computed, or a run has no judged
            query.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     qrels, one, two = (pathlib.Path(folder, name) for name in ("qrels", "one.run", "two.run"))
        ...     _ = qrels.write_text("q1 0 d1 1\nq2 0 d2 1\n")
        ...     _ = one.write_text("q1 Q0 d1 1 2.5 one\nq1 Q0 d2 2 1.5 one\nq2 Q0 d2 1 0.5 one\n")
        ...     _ = two.write_text("q1 Q0 d2 1 2.5 two\nq1 Q0 d1 2 1.5 two\n")
        ...     read_runs(qrels, {"one": one, "two": two}, "RR", log=print)["value"].tolist()
        RR of 2 judged queries
        two lacks 1 of 2 judged queries: counted as 0: q2
        [1.0, 1.0, 0.5, 0.0]
    """
    measure = parse_metric(metric)
    files = _list_files(runs)
    judged = group_qrels(read_trec_qrels(Path(qrels)))
    counts = Counter(system for system, _ in files)
    several = {system for system, count in counts.items() if count > 1}
    columns: dict[str, list[object]] = {"system": [], "seed": [], "query": [], "value": []}
    unjudged: dict[str, None] = {}
    notes, notes_on_files = [f"{measure} of {_count(len(judged), 'judged query')}"], list[str]()
    for (system, number), path in files.items():
        run = read_run(path, notes_on_files.append)
        if run.rows.keys().isdisjoint(judged):
            found = f"no query of {qrels}: {next(iter(run.rows))!r} is not like {next(iter(judged))!r}"
            raise UserError(str(path), found, "runs of these qrels")
        unjudged |= dict.fromkeys(query for query in run.rows if query not in judged)
        if lacking := [query for query in judged if query not in run.rows]:
            name = f"{system} run {number}" if system in several else system
            share = f"{len(lacking)} of {_count(len(judged), 'judged query')}"
            notes.append(f"{name} lacks {share}: counted as {measure.DEFAULT:g}: {join_names(lacking)}")
        values = _evaluate(run, judged, measure, metric)
        columns["system"] += [system] * len(judged)
        columns["seed"] += [number if system in several else None] * len(judged)
        columns["query"] += judged
        columns["value"] += [values.get(query, measure.DEFAULT) for query in judged]
    if unjudged:
        queries = f"{_count(len(unjudged), 'query')}: {join_names(list(unjudged))}"
        notes.append(f"left out, since {qrels} does not judge them: {queries}")
    for note in [*notes, *notes_on_files]:
        log(note)
    if not several:
        del columns["seed"]
    return pd.DataFrame(columns)


def parse_runs(arguments: Iterable[str]) -> dict[str, dict[int, Path]]:
    """Parse arguments of the form NAME=FILE, NAME=FILE,FILE,... or NAME=PATTERN, with the files of a system by seed.

    Files in a list are seeds 1, 2, ... In a pattern, the first * stands for the number of the seed, and others for
    anything.

    Raises:
        UserError: if there is no name, no file, no sign =, or a system is named twice; or if no file fits a pattern.

    Example:
        >>> parse_runs(["bm25=bm25.run", "bert=1.run,2.run"])["bert"]
        {1: PosixPath('1.run'), 2: PosixPath('2.run')}
    """
    runs: dict[str, dict[int, Path]] = {}
    for argument in arguments:
        name, sign, files = argument.partition("=")
        name, paths = name.strip(), [part.strip() for part in files.split(",")]
        if not sign or not name or not all(paths):
            raise UserError("--runs", repr(argument), "NAME=FILE, or NAME=FILE,FILE,... with a file for each seed")
        if name in runs:
            raise UserError("--runs", f"{name} twice", "each system once, its files with commas between them")
        is_pattern = "*" in files and not Path(files.strip()).exists()
        runs[name] = _find_files(files.strip()) if is_pattern else dict(enumerate(map(Path, paths), 1))
    return runs


def _find_files(pattern: str) -> dict[int, Path]:
    """Return the files that a pattern stands for, by the number in the place of its first sign *."""
    before, *parts = pattern.split("*")
    expression = re.compile(re.escape(before) + "([0-9]+)" + "[^/]*".join(map(re.escape, parts)))
    found = dict[int, Path]()
    for name in sorted(glob("*".join(map(escape, [before, *parts])))):
        match = expression.fullmatch(name)
        if match and found.setdefault(int(match[1]), Path(name)) != Path(name):
            raise UserError("--runs", f"{found[int(match[1])]} and {name}", "one file for each seed")
    if not found:
        raise UserError("--runs", repr(pattern), "a pattern of files, its first * in place of the number of the seed")
    return found


def parse_metric(metric: str) -> "ir_measures.Measure":
    """Parse the name of a metric as ir_measures or trec_eval writes it.

    Raises:
        UserError: if there is no such metric, or no provider that is installed computes it.
    """
    import ir_measures

    try:
        measure = ir_measures.parse_measure(metric)
    except Exception as error:  # ir_measures raises NameError, ValueError, TypeError and KeyError
        found = _parse_trec_eval_name(metric)
        if found is None:
            raise UserError("--metric", metric, _METRICS + _suggest_metric(metric)) from error
        measure = found
    cutoff = measure.params.get("cutoff")
    if cutoff is not None and (type(cutoff) is not int or cutoff < 1):  # pytrec_eval crashes at 0
        raise UserError("--metric", f"{metric} with cutoff {cutoff!r}", "a whole number above 0 after @")
    try:
        ir_measures.evaluator([measure], {"q": {"d": 1}})
    except Exception as error:
        raise UserError("--metric", f"{metric} ({_describe_error(error)})", _METRICS) from error
    return measure


def _suggest_metric(metric: str) -> str:
    """Return a hint at the metric that differs in capital letters alone; empty if there is none."""
    import ir_measures

    name, sign, rest = metric.partition("@")
    known = [other for other in ir_measures.measures.registry if other.casefold() == name.casefold()]
    return f"; did you mean {max(known)}{sign}{rest}?" if known and name not in known else ""


def read_run(path: Path, log: Callable[[str], object]) -> TrecRun:
    """Read a run, or predictions if the file begins as JSON.

    Raises:
        UserError: if the file cannot be read or is not valid.
    """
    with open_binary(path, "a run") as file:
        start = file.read(4096).removeprefix(BYTE_ORDER_MARK).lstrip()
    return read_predictions(path) if start.startswith(b"{") else read_trec_run(path, log=log)


def _parse_trec_eval_name(metric: str) -> "ir_measures.Measure | None":
    import ir_measures

    try:
        measures = ir_measures.parse_trec_measure(metric)
    except Exception:  # the same
        return None
    return measures[0] if len(measures) == 1 else None


def _list_files(runs: Mapping[str, _Path | Sequence[_Path] | Mapping[int, _Path]]) -> dict[tuple[str, int], Path]:
    """Return the files by system and number of the run."""
    files: dict[tuple[str, int], Path] = {}
    for system, own in runs.items():
        named = own if isinstance(own, Mapping) else dict(enumerate([own] if isinstance(own, Path | str) else own, 1))
        real = set[str]()
        for number, path in named.items():
            if realpath(path) in real:
                raise UserError(f"runs of {system}", f"{path} twice", "another file for each seed")
            real.add(realpath(path))
            files[system, number] = Path(path)
        if not named:
            raise UserError(f"runs of {system}", "no file", "a file for each seed")
    if len(runs) < 2:
        raise UserError("runs", ", ".join(runs) or "none", "two systems or more to compare")
    return files


def _evaluate(
    run: TrecRun, judged: Mapping[str, dict[str, int]], measure: "ir_measures.Measure", metric: str
) -> dict[str, float]:
    queries, values = [query for query in judged if query in run.rows], dict[str, float]()
    for first in range(0, len(queries), _QUERIES_AT_ONCE):
        batch = queries[first : first + _QUERIES_AT_ONCE]
        try:
            values |= compute_values({query: (judged[query], run.get_documents(query)) for query in batch}, measure)
        except Exception as error:  # of a provider
            raise UserError("--metric", f"{metric} cannot be computed ({_describe_error(error)})", _METRICS) from error
    for query in queries:
        if not abs(found := values.get(query, math.nan)) < math.inf:
            expected = "a metric with a finite value for every judged query"
            raise UserError("--metric", f"{metric} of query {query} is {found}", expected)
    return values


def compute_values(
    queries: Mapping[str, tuple[dict[str, int], dict[str, float]]], measure: "ir_measures.Measure"
) -> dict[str, float]:
    """Compute the value of each query by ir_measures from the grades and the scores of its documents.

    gdeval is a program of its own, which reads files: it takes numbers for queries alone, and blanks and hyphens in ids
    mislead it. So it gets numbers, which sort as the ids do, because ids break ties.
    """
    import ir_measures

    is_program = ir_measures.gdeval.supports(measure)
    names = {str(number) if is_program else query: query for number, query in enumerate(queries, 1)}
    tables = [_number_documents(*own) if is_program else own for own in queries.values()]
    qrels, run = (dict(zip(names, table, strict=True)) for table in zip(*tables, strict=True))
    return {names[row.query_id]: float(row.value) for row in ir_measures.iter_calc([measure], qrels, run)}


def _number_documents(grades: dict[str, int], scores: dict[str, float]) -> tuple[dict[str, int], dict[str, float]]:
    numbers = {document: f"{number:09}" for number, document in enumerate(sorted({*grades, *scores}))}
    return (
        {numbers[document]: grade for document, grade in grades.items()},
        {numbers[document]: score for document, score in scores.items()},
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else noun.removesuffix('y') + 'ies'}"


def _describe_error(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
