"""The first screen of a report: one sentence, one table and one line, for a study, a suite or a table of scores."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from analysis.data.configurations import Score, format_score
from analysis.rendering.cells import format_interval
from analysis.stats.comparison import Comparison, Target, limit_verdict
from analysis.stats.power import POWER, required_growth
from analysis.stats.variance_components import VarianceComponents
from analysis.tables.section import Section
from records.plan import PlannedFamily, adapt_to_unit, join_with_and

_MAX_NAMED = 6
"""Most comparisons with one verdict that the sentence names; it counts the others."""
_POWER = f"{100 * POWER:.0f} %"
_POPULATIONS = {
    "both": "new queries and new seeds",
    "queries": "new queries, not for new seeds",
    "seeds": "new seeds, not for new queries",
}
_LIMITS = {"queries": "these trained models", "seeds": "these queries"}


class Finding(NamedTuple):
    """One comparison on the first screen; see `Comparison` for the attributes of the same name."""

    system: str
    baseline: str
    difference: float | None
    interval: tuple[float, float] | None
    verdict: str
    target: Target | None
    detectable: float | None = None
    is_late: bool = False
    """True if it was declared when test scores existed."""

    @classmethod
    def from_comparison(cls, c: Comparison, is_late: bool = False) -> "Finding":
        """Return what the first screen says about a comparison."""
        return cls(c.system, c.baseline, c.difference, c.interval, c.verdict, c.target, c.detectable, is_late)

    @property
    def name(self) -> str:
        """Name of the system in the sentence."""
        return self.system + " (exploratory)" * self.is_late

    def to_cells(self) -> list[str]:
        """Return difference, interval and verdict for a table; the verdict says what it is limited to."""
        if self.difference is None:
            return ["incomplete", "-", self.verdict]
        verdict = limit_verdict(self.verdict, self.target) + " (exploratory)" * self.is_late
        return [f"{self.difference:+.4f}", format_interval(self.interval), verdict]


@dataclass(frozen=True)
class Sample:
    """The sample that the findings are from, and how they are tested.

    Attributes:
        metric: name of the metric; empty if the findings have different ones, which have no common bounds.
        seeds: number of seeds. 0 if the findings are of several studies.
        queries: number of queries. 0 if the findings are of several studies.
        comparisons: number of comparisons that are corrected together.
        alpha: level of all of them.
        correction: correction that decides.
        margin: differences below it do not matter. If None, none was declared.
        lower_is_better: True if smaller values are better.
        largest: largest possible difference. None if it is not known.
        unit: unit of the statistics: query or pair.
        split: name of the split, or empty.
        seed_words: seeds in words, if more is known than their number.
        variance: variance components for planning. None if they are not known.
    """

    metric: str
    seeds: int
    queries: int
    comparisons: int
    alpha: float
    correction: str
    margin: float | None = None
    lower_is_better: bool = False
    largest: float | None = None
    unit: str = "query"
    split: str = ""
    seed_words: str = ""
    variance: VarianceComponents | None = None

    @property
    def confidence(self) -> str:
        """Confidence of the intervals in percent."""
        return f"{100 * (1 - self.alpha):g} %"


class Answer(NamedTuple):
    """The first screen."""

    sentence: str
    table: Section
    line: str


def build_answer(findings: Sequence[Finding], scores: Mapping[str, Score | None], sample: Sample) -> Answer:
    """Build the first screen.

    Args:
        findings: the comparisons, in the order of the table.
        scores: mean and standard deviation over seeds of every system, None if it is incomplete.
        sample: what the findings are from.
    """
    sentence = write_sentence(findings, sample)
    is_open = any(f.verdict == "undecided" for f in findings)
    power = _describe_power(findings, sample, is_open)
    about = join_with_and(list(dict.fromkeys(_POPULATIONS[f.target] for f in findings if f.target)) or ["nothing yet"])
    queries = _join([f"{sample.queries:,}", sample.split, adapt_to_unit("queries", sample.unit)])
    counts = [queries] * (sample.queries > 1) + [sample.seed_words or _count(sample.seeds, "seed")]
    tested = f"Tested for {adapt_to_unit(about, sample.unit)}, with {' and '.join(counts)}."
    line = _join([tested, describe_correction(sample)])
    parts = [sentence, power] if is_open else [sentence]
    rest = [line, _describe_one_sided(findings, sample)] + ([] if is_open else [power])
    spread = " ± standard deviation over seeds" * _has_spread(scores)
    what = f"{sample.metric}: mean{spread}, and differences between systems."
    table = _build_table(findings, scores, sample)._replace(caption=_join([what, *rest]))
    return Answer(_join(parts), table, _join(rest))


def write_sentence(findings: Sequence[Finding], sample: Sample) -> str:
    """Say what the comparisons show: each verdict with its systems and bounds, and what the verdicts are limited to."""
    by_verdict: dict[str, list[Finding]] = {}
    for f in findings:
        by_verdict.setdefault(f.verdict, []).append(f)
    level = f"{sample.confidence} interval"
    parts = [_describe_decided(verdict, by_verdict.get(verdict, []), level) for verdict in ("better", "worse")]
    parts += [
        f"{title} {baseline}{words}: {_list_names(f.name for f in own)}."
        for verdict, title, words in (
            ("equivalent", "Equivalent to", f" within {sample.margin or 0:g}"),
            ("all values are equal", "Equal in every value to", ""),
        )
        for baseline, own in _group(by_verdict.get(verdict, [])).items()
    ]
    known = [f for f in findings if f.target and f.difference is not None]
    parts += [_describe_undecided(by_verdict.get("undecided", []), sample)]
    for target, words in _LIMITS.items():
        if limited := [f.name for f in known if f.target == target]:
            names = "" if len(limited) == len(known) else f" for {_list_names(dict.fromkeys(limited))}"
            parts.append(f"This holds for {adapt_to_unit(words, sample.unit)} only{names}.")
    if missing := by_verdict.get("not compared"):
        parts.append(f"Not compared, because incomplete: {_list_names(dict.fromkeys(f.name for f in missing))}.")
    return _join(["" if known else "No conclusion: no comparison is complete.", *parts])


def describe_correction(sample: Sample) -> str:
    """Say what intervals and verdicts are corrected for."""
    if sample.comparisons == 1:
        return ""
    everything = f"for {_count_all(sample.comparisons)} at once"
    if sample.correction == "bonferroni":
        return f"Intervals and verdicts hold {everything} (Bonferroni)."
    return f"Verdicts hold {everything} by {sample.correction}, intervals by Bonferroni."


def _describe_one_sided(findings: Sequence[Finding], sample: Sample) -> str:
    """Say why an interval reaches beyond the margin although the verdict is equivalent, if one does."""
    intervals = [f.interval for f in findings if f.verdict == "equivalent" and f.interval]
    if sample.margin is None or not any(max(map(abs, interval)) > sample.margin for interval in intervals):
        return ""
    return "Equivalence has one-sided tests, so an interval may reach a little beyond the margin."


def _build_table(findings: Sequence[Finding], scores: Mapping[str, Score | None], sample: Sample) -> Section:
    """Build the table: first the baselines, then the comparisons, then systems without a comparison."""
    compared, baselines = ([getattr(f, name) for f in findings] for name in ("system", "baseline"))
    others = [name for name in scores if name not in compared]
    empty = Finding("", "-", None, None, "-", None)
    first = [empty._replace(system=name, verdict="baseline") for name in others if name in baselines]
    last = [empty._replace(system=name, verdict="reference") for name in others if name not in baselines]
    rows = [
        [f.system, f.baseline, "incomplete" if (score := scores.get(f.system)) is None else format_score(score),
         *(f.to_cells() if f.baseline != "-" else ["-", "-", f.verdict])]
        for f in (*first, *findings, *last)
    ]  # fmt: skip
    spread = " ± sd" * _has_spread(scores)
    direction = ", lower is better" if sample.lower_is_better else ""
    measured = f"{sample.metric}{spread}{direction}"
    header = ["system", "versus", measured, "difference", f"{sample.confidence} interval", "verdict"]
    if len({*baselines}) == 1:
        for row in (header, *rows):
            del row[1]
    return Section("Result", header, rows, "", label="main")


def _has_spread(scores: Mapping[str, Score | None]) -> bool:
    return any(score and score[1] is not None for score in scores.values())


def _describe_decided(verdict: str, own: Sequence[Finding], level: str) -> str:
    parts = []
    for baseline, group in _group(own).items():
        sizes = [f"{f.name} by {_describe_size(f)}" for f in group[:_MAX_NAMED]]
        if len(group) == 1:
            parts.append(f"{group[0].name} is {verdict} than {baseline} by {_describe_size(group[0], f'{level} ')}.")
        else:
            named = ", ".join(sizes) + _count_rest(group)
            parts.append(f"{verdict.capitalize()} than {baseline}, with {level}s: {named}.")
    return " ".join(parts)


def _describe_size(f: Finding, level: str = "") -> str:
    """Return the size of a difference, and its bounds in the same direction."""
    difference = f.difference or 0.0
    sign = 1 if difference > 0 else -1
    bounds = sorted(sign * bound for bound in f.interval) if f.interval else []
    return f"{abs(difference):.4f}" + (f" ({level}{bounds[0]:.4f} to {bounds[1]:.4f})" if bounds else "")


def _describe_undecided(own: Sequence[Finding], sample: Sample) -> str:
    """Say between which bounds the undecided differences can be, or that they have none of any use."""
    if not own:
        return ""
    groups = _group(own)
    if len(groups) == 1:
        names, place = _list_names(f.name for f in own), f" from {own[0].baseline}"
    else:
        pairs = tuple((f.name, f.baseline) for f in own)
        names, place = PlannedFamily(name="", comparisons=pairs[:_MAX_NAMED]).format_pairs() + _count_rest(pairs), ""
    if not sample.metric:
        return f"Undecided for {names}."
    intervals = [f.interval or (-math.inf, math.inf) for f in own]
    low, high = min(interval[0] for interval in intervals), max(interval[1] for interval in intervals)
    if not max(-low, high) < (sample.largest or math.inf):
        plural = "s" * (len(own) > 1)
        return f"Undecided for {names}: with so little data nothing bounds the true difference{plural}{place}."
    difference = "the true difference" if len(own) == 1 else "each true difference"
    number = f" for {_count_all(sample.comparisons)}" * (sample.comparisons > 1)
    direction = ", lower is better" * sample.lower_is_better
    return (
        f"Undecided for {names}: {difference}{place} can be anything from {low:+.4f} to {high:+.4f} "
        f"({sample.confidence} bounds{number}{direction})."
    )


def _describe_power(findings: Sequence[Finding], sample: Sample, is_open: bool) -> str:
    """Say what difference the study can detect, empty if it is not known; if one is open, what a smaller one takes."""
    effects = [f.detectable for f in findings if f.detectable is not None]
    if not effects:
        return ""
    effect = median(effects)
    if sample.largest is not None and effect >= sample.largest:
        return f"This study has less than {_POWER} power even for the largest possible difference."
    found = f"This study can detect differences of about {_round(effect, 2)} with {_POWER} power"
    smaller = sample.margin if sample.margin is not None and sample.margin < effect else float(_round(effect / 2, 1))
    growth = (
        is_open
        and sample.variance
        and required_growth(
            sample.variance.to_difference_variance(),
            effect,
            smaller,
            sample.seeds,
            sample.queries,
            sample.alpha / sample.comparisons,
        )
    )
    if not growth:
        least, most = min(effects), max(effects)
        return f"{found}{f' ({_round(least, 2)} to {_round(most, 2)} by comparison)' * (most >= 2 * least)}."
    seeds, queries = (_round_up(number) for number in growth)
    units = adapt_to_unit("queries", sample.unit)
    return f"{found}; {smaller:g} would take about {seeds:,} seeds and {queries:,} {units}."


def _round(value: float, digits: int) -> str:
    """Format a positive number with so many significant digits, at least those before the point."""
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(value)))}f}"


def _round_up(number: int) -> int:
    """Round a count up to two significant digits."""
    step = int(10 ** max(0, len(str(number)) - 2))
    return -(-number // step) * step


def _group(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    """Return the findings by baseline."""
    groups: dict[str, list[Finding]] = {}
    for f in findings:
        groups.setdefault(f.baseline, []).append(f)
    return groups


def _list_names(names: Iterable[str]) -> str:
    shown = list(names)
    if len(shown) <= _MAX_NAMED:
        return join_with_and(shown)
    return ", ".join(shown[:_MAX_NAMED]) + _count_rest(shown)


def _count_rest(names: Sequence[object]) -> str:
    """Return how many there are besides the first ones, which the sentence names; empty if none."""
    return f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _count_all(number: int) -> str:
    return "both comparisons" if number == 2 else f"all {number} comparisons"


def _join(parts: Sequence[str]) -> str:
    return " ".join(filter(None, parts))
