"""The looks of a sequential study as a table of the report."""

from analysis.comparisons.interim_results import InterimTest
from analysis.stats.interim_tests import get_alpha_shares
from analysis.tables.main import ReportData
from analysis.tables.section import Section
from records.plan import join_with_and

_LEGEND = (
    "Sequential confirmation: the study looked at its {test} scores after {looks} fresh seeds at most, until every "
    "comparison of the family {family} was decided. {stop} Each look may spend a share of the level {alpha:g} of the "
    "family, which the level over all looks therefore keeps. p, the corrected p, the interval and the verdict of "
    "every comparison on {test} are over all looks; other numbers are those of the last look."
)


def build_interim_section(analysis: ReportData) -> Section | None:
    """Build the table of the looks, if the study is sequential."""
    plan, looks = analysis.results.plan, analysis.looks
    if looks is None:
        return None
    shares = get_alpha_shares(plan.looks)
    rows = [
        [str(number), str(look.seeds), f"{share:.3f}", f"{plan.alpha * share:.4f}", *_describe_decisions(look)]
        for number, (look, share) in enumerate(zip(looks.taken, shares, strict=False), start=1)
    ]
    legend = _LEGEND.format(
        test=plan.test_split,
        looks=join_with_and([*map(str, plan.looks)]),
        family=plan.headline.name,
        stop=_describe_stop(analysis),
        alpha=plan.alpha,
    )
    header = ["look", "seeds", "share", "level", "decided", "open"]
    return Section("Looks", header, rows, legend)


def _describe_decisions(look: InterimTest) -> tuple[str, str]:
    """Return the decided comparisons with their verdicts, and the open ones."""
    decided = [f"{c.system} {c.verdict} ({c.baseline})" for c in look.comparisons if c.is_decided]
    open_pairs = [f"{c.system} with {c.baseline}" for c in look.comparisons if not c.is_decided]
    return ", ".join(decided) or "-", ", ".join(open_pairs) or "-"


def _describe_stop(analysis: ReportData) -> str:
    plan, looks = analysis.results.plan, analysis.looks
    if looks is None or not looks.is_over:
        return "The next look waits for its scores."
    if looks.taken[-1].is_decided:
        return f"It stopped at look {len(looks.taken)} of at most {len(plan.looks)}: all were decided."
    return "It ran all seeds."
