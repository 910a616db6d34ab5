"""Requirements of a comparison, such as "T-LS better than BERT", for scripts that must stop if one is not met."""

from collections.abc import Sequence
from typing import NamedTuple

from analysis.stats.comparison import Comparison, ComparisonSettings
from trainables.utils.errors import UserError

RELATIONS = ("better than", "not worse than", "equivalent to")
_OPTION = "--require"
_SCOPES = {"queries": ", for these runs", "seeds": ", for these queries"}
"""What a comparison is limited to, by the target of its test."""


class RequirementResult(NamedTuple):
    """Result of a requirement.

    Attributes:
        phrase: the requirement.
        is_met: True if the comparison shows it.
        reason: numbers that decide, or why the systems were not compared.
    """

    phrase: str
    is_met: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.phrase}: {'met' if self.is_met else 'not met'} ({self.reason})"


def check_requirement(
    phrase: str,
    names: Sequence[str],
    comparisons: Sequence[Comparison],
    settings: ComparisonSettings,
    missing: Sequence[str] = (),
) -> RequirementResult:
    """Check one requirement by the corrected tests of the comparisons.

    "A better than B" needs the verdict better. "A not worse than B" needs the simultaneous confidence interval of the
    difference to lie above -margin, "A equivalent to B" the corrected equivalence test within the margin.

    Args:
        phrase: name of a system, one of `RELATIONS`, and the name of another system.
        names: names of all systems.
        comparisons: the comparisons, in either direction.
        settings: settings of the comparisons.
        missing: descriptions of missing scores, each of which begins with the name of a system.

    Raises:
        UserError: if the phrase cannot be read, names an unknown system or a pair that is not compared, or needs a
            margin that is not set.
    """
    system, relation, baseline = _parse_phrase(phrase, names)
    c = next((c for c in comparisons if {c.system, c.baseline} == {system, baseline}), None)
    if c is None:
        compared = {name for other in comparisons for name in (other.system, other.baseline)}
        remedy = f"--baseline {baseline!r} among the options, or none"
        if {system, baseline} <= compared and {system, baseline} <= {other.baseline for other in comparisons}:
            remedy = f"only one of {system!r} and {baseline!r} as --baseline; two baselines are not compared"
        raise UserError(_OPTION, f"{phrase!r}, a pair that is not compared", remedy)
    if relation != RELATIONS[0] and settings.margin is None:
        raise UserError(_OPTION, f"{phrase!r} without a margin", "--margin, the difference that does not matter")
    if c.difference is None:
        own = [fault for fault in missing if fault.startswith((f"{system} ", f"{baseline} "))]
        return RequirementResult(phrase, False, f"not compared: {'; '.join(own) or 'scores are missing'}")
    sign = 1 if c.system == system else -1
    is_met, reason = _judge(c, relation, sign, settings)
    return RequirementResult(
        phrase, is_met, f"difference {sign * c.difference:+.4f}, {reason}{_SCOPES.get(c.target or '', '')}"
    )


def _parse_phrase(phrase: str, names: Sequence[str]) -> tuple[str, str, str]:
    """Return system, relation and other system. Names may contain blanks."""
    unknown = list[str]()
    for relation in RELATIONS:
        parts = phrase.split(f" {relation} ")
        for cut in range(1, len(parts)):
            sides = [f" {relation} ".join(own).strip() for own in (parts[:cut], parts[cut:])]
            wrong = [name for name in sides if name not in names]
            if not wrong and sides[0] != sides[1]:
                return sides[0], relation, sides[1]
            unknown += wrong or [f"{sides[0]} twice"]
    if unknown:
        raise UserError(_OPTION, f"{phrase!r}, which names {unknown[0]}", f"two of {', '.join(names)}")
    raise UserError(_OPTION, repr(phrase), f"SYSTEM {', '.join(RELATIONS[:-1])} or {RELATIONS[-1]} SYSTEM")


def _judge(c: Comparison, relation: str, sign: int, settings: ComparisonSettings) -> tuple[bool, str]:
    """Return whether a relation holds, and the numbers that decide.

    Args:
        c: the comparison.
        relation: one of RELATIONS.
        sign: 1 if the system of the requirement is that of the comparison, -1 if it is its baseline.
        settings: settings of the comparisons.
    """
    level = f"alpha {settings.alpha:g}"
    if relation == "better than":
        wanted = "better" if sign > 0 else "worse"
        return c.verdict == wanted, f"corrected p {_format_p(c.adjusted[settings.correction])}, {level}"
    margin = settings.margin or 0.0
    if relation == "equivalent to":
        is_met = c.equivalence_p is not None and c.equivalence_p < settings.alpha
        return is_met, f"corrected p of equivalence within {margin:g} {_format_p(c.equivalence_p)}, {level}"
    if c.interval is None:
        return False, f"no interval at {level}"
    ends = [sign * end for end in c.interval]
    if settings.less_is_better:
        return max(ends) < margin, f"bound {max(ends):+.4f}, margin {margin:g}, {level}"
    return min(ends) > -margin, f"bound {min(ends):+.4f}, margin -{margin:g}, {level}"


def _format_p(p: float | None) -> str:
    return "unknown" if p is None else "below 0.0001" if p < 0.0001 else f"{p:.4f}"
