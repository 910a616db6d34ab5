"""Systems with a curriculum: how they are described, told apart and drawn; the scoring run is of no system."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from analysis.data.configurations import collect_configurations
from analysis.data.measured_cost import compute_cost
from analysis.data.study_results import per_query
from analysis.export.optuna import to_distributions
from analysis.export.wandb_summary import build_wandb_summary
from analysis.figures import learning_curves as curves
from analysis.figures.style import COLOURS, get_line_style
from analysis.readers.study_reader import read_records
from analysis.rendering.sections import build_run_section as runs_section
from analysis.tables.main import ReportData, build_report_data
from records.search_log import SystemSearchLog
from study.folder.run_name import format_run_name
from tests.analysis.builders import Made, analyse, plan_of, queries_of, scores, write_records

CURRICULUM = {"pacing": "root_2", "score": "BERT_loss", "delta": 0.33, "duration": 0.9}


def _made(variant: str, seed: int, quality: float = 1.5, **further: object) -> Made:
    run = Made(variant, seed, quality, tested=not further.get("untested"), role=str(further.pop("role", "search")))
    run.further = {key: value for key, value in further.items() if key != "untested"}
    number = int(run.id[:8], 16)
    run.scores = {"dev": scores("dev", 30, quality, number)}
    if run.tested:
        run.scores["test"] = scores("test", 30, quality, number)
    return run


def _study(folder: Path, runs: list[Made], systems: list[str], **changes: object) -> ReportData:
    families = [{"name": "variants", "comparisons": [[name, "BERT"] for name in systems[1:]]}]
    return analyse(folder, runs, queries_of(30, 30), seeds=[1, 2], systems=systems, families=families, **changes)


def test_what_a_systems_configurations_differ_in_is_named(tmp_path: Path) -> None:
    other = {"pacing": "linear", "score": "words_responses", "delta": 0.1, "duration": 0.5}
    runs = [_made("BERT", seed) for seed in (1, 2)]
    for seed in (1, 2):
        runs += [_made("CL", seed, **CURRICULUM), _made("CL", seed, 1.2, untested=True, **other)]
    found = _study(tmp_path, runs, ["BERT", "CL"])
    assert {c.label for c in collect_configurations(found.results)} == {
        "BERT",
        "CL (pacing root_2, score BERT_loss, delta 0.33, duration 0.9)",
        "CL (pacing linear, score words_responses, delta 0.1, duration 0.5)",
    }


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"variant": "CL-turns", **CURRICULUM, "score": "turns"}, "CL-turns root_2 seed 1"),
        ({"variant": "CL", **CURRICULUM, "delta": 0.1}, "CL root_2 BERT_loss delta 0.1 seed 1"),
        (
            {"variant": "T-WSLS-CL-BERT_loss", "epsilon": 0.2, "switch": 0.5, **CURRICULUM},
            "T-WSLS-CL-BERT_loss epsilon 0.2 switch 0.5 root_2 seed 1",
        ),
        ({"variant": "BERT", **dict.fromkeys(CURRICULUM)}, "BERT seed 1"),
    ],
)
def test_a_runs_name_tells_its_curriculum(labels: dict[str, object], expected: str) -> None:
    assert format_run_name({**labels, "seed": 1}) == expected


def test_the_scoring_run_is_in_the_table_of_runs_and_nowhere_else(tmp_path: Path) -> None:
    runs = [_made(name, seed) for name in ("BERT", "CL-turns") for seed in (1, 2)]
    scorer = _made("BERT", 0, role="scorer", untested=True)
    assert scorer.configuration == runs[0].configuration
    without = _study(tmp_path / "without", runs, ["BERT", "CL-turns"])
    found = _study(tmp_path / "with", [*runs, scorer], ["BERT", "CL-turns"], scorer_seed=0)
    assert found.results.plan.scorer_seed == 0
    assert found.table == without.table
    assert not found.table.notes
    assert [c.runs.keys() for c in found.configurations] == [{1, 2}] * 2
    assert found.strata.to_frame().equals(without.strata.to_frame())
    for split in ("dev", "test"):
        assert 0 not in set(per_query(found.results, split, "R10@1")["seed"])
    rows = runs_section(found).rows
    assert rows[:-1] == runs_section(without).rows
    assert rows[-1][:5] == ["-", "-", "0", scorer.id, "scorer"]
    assert "with seed 0; it only computes difficulty scores and belongs to no system" in runs_section(found).legend
    assert "belongs to no system" not in runs_section(without).legend
    assert compute_cost(found.results).runs == compute_cost(without.results).runs + 1


def test_a_scoring_run_that_failed_is_no_failure_of_the_baseline(tmp_path: Path) -> None:
    scorer = _made("BERT", 0, role="scorer", untested=True)
    scorer.state = "failed"
    runs = [_made(name, seed) for name in ("BERT", "CL-turns") for seed in (1, 2)]
    told = build_wandb_summary(_study(tmp_path, [*runs, scorer], ["BERT", "CL-turns"], scorer_seed=0))
    assert (told["system/BERT/failed_runs"], told["failed_runs"]) == (0, 1)


def _search() -> SystemSearchLog:
    grid = {"pacing": ("linear", "root_2"), "score": ("turns", "words_responses"), "delta": (0.1, 0.33)}
    proposals = [
        {
            "number": number,
            "configuration_id": str(number),
            "state": "complete",
            "seeds": (1,),
            "mean": number / 8,
            "values": {"pacing": grid["pacing"][number % 2], "score": grid["score"][number // 4],
                       "delta": grid["delta"][number // 2 % 2]},
        }
        for number in range(8)
    ]  # fmt: skip
    stored = {"sampler": "tpe", "size": 8, "wanted": 8, "proposed": 8, "grid": grid, "proposals": proposals}
    return SystemSearchLog.model_validate(stored)


def test_names_of_pacing_and_score_are_categories(tmp_path: Path) -> None:
    domains = to_distributions(_search())
    assert {name: type(domain).__name__ for name, domain in domains.items()} == {
        "pacing": "CategoricalDistribution", "score": "CategoricalDistribution", "delta": "FloatDistribution",
    }  # fmt: skip
    runs = [_made(name, seed) for name in ("BERT", "CL") for seed in (1, 2)]
    families = [{"name": "variants", "comparisons": [["CL", "BERT"]]}]
    plan = plan_of(runs, seeds=[1, 2], systems=["BERT", "CL"], families=families)
    reverse = {"delta": 0, "score": 0, "pacing": 0}
    stored = _search().model_dump(mode="json")
    for one in stored["proposals"]:
        one["values"] = {name: one["values"][name] for name in reverse}
    write_records(tmp_path, plan, runs, {"systems": {"CL": stored}})
    found = build_report_data(read_records(tmp_path))
    assert list(found.results.search.systems["CL"].proposals[0].values) == ["pacing", "score", "delta"]


def test_twelve_systems_are_told_apart(tmp_path: Path) -> None:
    assert len(set(COLOURS)) == len(COLOURS) == 12
    for one, other in combinations(map(_lab, COLOURS), 2):
        assert np.linalg.norm(one - other) > 23
    systems = ["BERT", *(f"CL-{number}" for number in range(18))]
    runs = [_made("BERT", seed) for seed in (1, 2)]
    plan = _study(tmp_path, runs, systems).results.plan
    assert len({str(get_line_style(plan, name)) for name in systems}) == 19


def _lab(colour: str) -> np.ndarray:
    """CIELAB, D65."""
    channels = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    x, y, z = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    a, b, c = (np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x / 0.9505, y, z / 1.089))
    return np.array([116 * b - 16, 500 * (a - b), 200 * (b - c)])


@pytest.mark.parametrize(("count", "bands"), [(3, True), (10, False)])
def test_each_dev_curve_has_its_highest_point_marked(tmp_path: Path, count: int, bands: bool) -> None:
    systems = ["BERT", *(f"CL-{number}" for number in range(count - 1))]
    found = _study(tmp_path, [_made(name, seed) for name in systems for seed in (1, 2)], systems)
    loss, dev = curves.plot_learning_curves(found).axes
    assert not [line for line in loss.lines if line.get_marker() == "*"]
    stars = [line for line in dev.lines if line.get_marker() == "*"]
    drawn = {line.get_label(): line for line in dev.lines if line.get_label() in systems}
    assert len(stars) == len(drawn) == count
    for star, name in zip(stars, systems, strict=True):
        x, y = drawn[name].get_data()
        assert (star.get_xdata()[0], star.get_ydata()[0]) == (x[np.argmax(y)], max(y))
        assert star.get_color() == drawn[name].get_color()
    assert bool(dev.collections) == bands
