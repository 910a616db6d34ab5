"""The tables as LaTeX: which there are, that each line has its columns, that nothing of a user is a command."""

import re
from pathlib import Path

import pytest

from analysis.readers.study_reader import read_records
from analysis.rendering.document import build_document, render_latex
from analysis.rendering.latex import _format_cell, escape_latex
from analysis.tables.main import build_report_data
from tests.analysis.builders import analyse, study_runs, write_records
from tests.analysis.searching import searched


def _tables(source: str) -> dict[str, list[str]]:
    """Label -> the lines of its table, the header first."""
    found = {}
    for _, part in re.findall(r"\\begin\{(table\*?)\}(.*?)\\end\{\1\}", source, re.DOTALL):
        assert [part.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
        label = re.search(r"\\label\{tab:([A-Za-z0-9-]+)\}", part)
        found[label[1]] = [line for line in part.splitlines() if line.endswith(r" \\")]
    return found


def _columns(line: str) -> int:
    return len(re.findall(r"(?<!\\)&", line)) + 1


def _balanced(source: str) -> bool:
    bare = re.sub(r"\\[\\{}%$&#_]", "", re.sub(r"(?<!\\)%.*", "", source))
    return bare.count("{") == bare.count("}") and bare.count("$") % 2 == 0


def test_a_study_has_its_main_table_and_its_comparisons(tmp_path: Path) -> None:
    made = study_runs(seeds=(1, 2, 3, 4, 5))
    source = render_latex(build_document(analyse(tmp_path, made, seeds=[1, 2, 3, 4, 5])))
    tables = _tables(source)
    assert {label: len(lines) - 1 for label, lines in tables.items()} == {
        "main": 8, "comparisons-variants": 5, "comparisons-sanity": 2,
    }  # fmt: skip
    assert all(len({_columns(line) for line in lines}) == 1 for lines in tables.values())
    assert tables["main"][0] == r"system & versus & R10@1 $\pm$ sd & difference & 95 \% interval & verdict \\"
    best, _ = [line for line in tables["main"] if line.startswith("T-WSLS")]
    assert best.endswith(r"& better \\")
    assert _balanced(source)
    assert source.isascii()


def test_a_searched_study_has_the_same_tables(tmp_path: Path) -> None:
    made = searched(proposals=4, queries=(10, 20))
    write_records(tmp_path, made.plan, made.runs, made.search)
    source = render_latex(build_document(build_report_data(read_records(tmp_path))))
    tables = _tables(source)
    assert set(tables) == {"main", "comparisons-variants", "comparisons-sanity"}
    assert _columns(tables["main"][0]) == 5
    assert _balanced(source)


def test_nothing_that_a_user_wrote_is_a_command(tmp_path: Path) -> None:
    names = ["a&b", "50%", "$x$", "#1", "x_1", "{", "}", "\\input{x}", "~^", "<|>", "[1]"]
    made = study_runs(seeds=(1,), grid=False)
    families = [{"name": name, "comparisons": [["LS", "BERT"]]} for name in names]
    source = render_latex(
        build_document(analyse(tmp_path, made, seeds=[1], families=families, systems=["BERT", "LS", *names]))
    )
    assert _balanced(source)
    assert [name for name in names if escape_latex(name) not in source] == []
    assert all(len({_columns(line) for line in lines}) == 1 for lines in _tables(source).values())


def test_text_is_escaped_once() -> None:
    assert escape_latex("a_b & 5 % of \\x") == r"a\_b \& 5 \% of \textbackslash{}x"
    assert escape_latex("T-LS -0.01\n5e-06") == "T-LS $-$0.01 5e-06"
    assert escape_latex("ε ± <.0001") == r"$\epsilon$ $\pm$ $<$.0001"


@pytest.mark.parametrize(
    ("cell", "bold", "shown"),
    [
        ("-12.3000 ± 0.1", True, r"\textbf{$-$12.3000} $\pm$ 0.1"),
        ("-12.3000", True, r"\textbf{$-$12.3000}"),
        ("-", False, "-"),
    ],
)
def test_a_bold_number_keeps_its_sign(cell: str, bold: bool, shown: str) -> None:
    assert _format_cell(cell, bold) == shown
