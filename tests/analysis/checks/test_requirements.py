"""Requirements: met exactly if the corrected tests say so, in either direction, with one line otherwise."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.compare import ComparisonResult, compare, main, require
from analysis.stats.comparison import ComparisonSettings
from trainables.utils.errors import UserError


def _table(seeds: int = 5, queries: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    by_query = rng.normal(0.5, 0.2, queries)
    gains = {"BERT base": 0.0, "LS": 0.001, "T-LS (not worse than LS)": 0.1}
    rows = [
        (name, seed, query, by_query[query] + gain + rng.normal(0, 0.03))
        for name, gain in gains.items()
        for seed in range(seeds)
        for query in range(queries)
    ]
    return pd.DataFrame(rows, columns=["system", "seed", "query", "value"])


BASE, LS, T_LS = "BERT base", "LS", "T-LS (not worse than LS)"


def _compare(margin: float | None = None, baselines: tuple[str, ...] = (), less: bool = False) -> ComparisonResult:
    return compare(_table(), baselines, ComparisonSettings(margin=margin, less_is_better=less))


@pytest.mark.parametrize("baselines", [(), (BASE,)])
def test_better_is_the_verdict_in_either_direction(baselines: tuple[str, ...]) -> None:
    result = _compare(baselines=baselines)
    pairs = [(T_LS, BASE), (BASE, T_LS), (LS, BASE), (BASE, LS)]
    found = [require(result, f"{system} better than {other}").is_met for system, other in pairs]
    assert found == [True, False, False, False]
    turned = _compare(baselines=baselines, less=True)
    assert require(turned, f"{BASE} better than {T_LS}").is_met
    assert not require(turned, f"{T_LS} better than {BASE}").is_met


def test_the_reason_has_the_numbers_in_the_direction_of_the_phrase() -> None:
    result = _compare()
    c = next(c for c in result.comparisons if (c.system, c.baseline) == (LS, BASE))
    p = f"corrected p {c.adjusted['bonferroni']:.4f}, alpha 0.05)"
    assert str(require(result, f"{LS} better than {BASE}")).endswith(f"not met (difference {c.difference:+.4f}, {p}")
    assert str(require(result, f"{BASE} better than {LS}")).endswith(f"not met (difference {-c.difference:+.4f}, {p}")  # type: ignore[operator]


@pytest.mark.parametrize("less", [False, True])
@pytest.mark.parametrize(("system", "other"), [(LS, BASE), (BASE, LS), (T_LS, BASE), (BASE, T_LS)])
def test_not_worse_is_the_bound_of_the_interval(system: str, other: str, less: bool) -> None:
    """Just above the bound it is met, just below it is not."""
    c = next(c for c in _compare(less=less).comparisons if {c.system, c.baseline} == {system, other})
    assert c.interval is not None
    ends = [end if c.system == system else -end for end in c.interval]
    needed = max(ends) if less else -min(ends)
    phrase = f"{system} not worse than {other}"
    for factor, is_met in ((1.001, True), (0.999, False)):
        margin = needed * factor
        if margin > 0:
            assert require(_compare(margin, less=less), phrase).is_met == is_met
    if needed < 0:  # surely better: any margin will do
        assert require(_compare(1e-6, less=less), phrase).is_met


def test_equivalent_is_the_corrected_equivalence_test() -> None:
    for margin in (0.001, 0.02, 0.5):
        result = _compare(margin)
        for c in result.comparisons:
            for phrase in (f"{c.system} equivalent to {c.baseline}", f"{c.baseline} equivalent to {c.system}"):
                assert require(result, phrase).is_met == (c.equivalence_p < 0.05)  # type: ignore[operator]
    assert require(result, f"{T_LS} equivalent to {BASE}").is_met  # within .5, although it is better


@pytest.mark.parametrize(("phrase", "message"), [
    ("LS beats BERT base", "expected SYSTEM better than, not worse than or equivalent to SYSTEM"),
    ("LS better than BERT", "which names BERT; expected two of BERT base, LS, T-LS"),
    ("LS better than LS", "which names LS twice"),
    ("better than LS", "expected SYSTEM better than"),
    (f"{T_LS} better than {LS}", "a pair that is not compared; expected --baseline 'LS'"),
    (f"LS not worse than {BASE}", "without a margin; expected --margin"),
    (f"LS equivalent to {BASE}", "without a margin; expected --margin"),
])  # fmt: skip
def test_a_mistake_is_told_from_a_requirement_that_is_not_met(phrase: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        require(_compare(baselines=(BASE,)), phrase)
    assert message in str(caught.value)


def test_what_is_not_compared_is_not_met_and_says_what_is_missing() -> None:
    table = _table()
    result = compare(table[~((table["system"] == LS) & (table["seed"] == 3))], [BASE])
    found = require(result, f"{LS} better than {BASE}")
    assert (found.is_met, found.reason) == (False, "not compared: LS lacks seed 3")


def test_the_command_ends_with_a_status_for_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _table().to_csv(tmp_path / "s.csv", index=False)
    command = [str(tmp_path / "s.csv"), "--baseline", BASE, "--margin", "0.02", "--json", str(tmp_path / "c.json")]
    better, same = f"{T_LS} better than {BASE}", f"{LS} not worse than {BASE}"
    assert main([*command, "--require", better, "--require", same]) == 0
    told = capsys.readouterr()
    assert [line.partition(": met (")[0] for line in told.out.splitlines()[-2:]] == [better, same]
    assert told.err == ""
    assert main([*command, "--require", better, "--require", f"{LS} better than {BASE}"]) == 1
    told = capsys.readouterr()
    assert told.err.startswith(f"analysis.compare: {LS} better than {BASE}: not met (difference +0.0")
    assert told.err.count("\n") == 1
    assert better in told.out.splitlines()[-1]
    (tmp_path / "c.json").unlink()
    assert main([*command, "--require", "nonsense"]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert not (tmp_path / "c.json").exists()
