"""`wandb.Api` against the server: pages, filters, orders, whole histories."""

import json
from typing import Any

import pytest

from wandb_server import Server, client

COUNT = 7
ROWS = 600

READ = """
api = wandb.Api()
path = "laboratory/reading"
questions = json.loads(input())
answers = {}
for name, question in questions.items():
    answers[name] = [run.id for run in api.runs(path, per_page=2, **question)]
run = api.run(path + "/run3")
answers["full"] = [row["x"] for row in run.scan_history(page_size=100)]
answers["thinned"] = len(run.history(pandas=False))
answers["sampled"] = [row["x"] for row in run.history(keys=["x"], samples=3, pandas=False)]
answers["last"] = run.lastHistoryStep
answers["run"] = [run.config, dict(run.summary), run.state, run.group, run.job_type, run.tags]
answers["some"] = [row["x"] for row in run.scan_history(keys=["x"], min_step=5, max_step=9, page_size=3)]
answers["not a number"] = [row["loss"] for row in run.scan_history(keys=["loss"], max_step=3)]
print(json.dumps(answers))
"""

QUESTIONS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "all": ({}, [0, 1, 2, 3, 4, 5, 6]),
    "newest first": ({"order": "-created_at"}, [6, 5, 4, 3, 2, 1, 0]),
    "by a metric": ({"order": "+summary_metrics.dev/R10@1"}, [6, 5, 4, 3, 2, 1, 0]),
    "by a parameter": ({"order": "-config.deep.rate.value"}, [6, 5, 4, 3, 2, 1, 0]),
    "there": ({"filters": {"config.even": {"$exists": True}}}, [0, 2, 4, 6]),
    "equal": ({"filters": {"config.deep.rate.value": 3}}, [3]),
    "greater": ({"filters": {"summary_metrics.dev/R10@1": {"$gt": -3}}}, [0, 1, 2]),
    "group": ({"filters": {"group": "g1", "jobType": "search"}}, [1, 4]),
    "tags": ({"filters": {"tags": {"$in": ["t0"]}}}, [0, 5]),
    "state": ({"filters": {"state": {"$ne": "failed"}}}, [1, 2, 4, 5]),
    "either": ({"filters": {"$or": [{"name": "run2"}, {"display_name": {"$regex": "^run[45]"}}]}}, [2, 4, 5]),
    "none": ({"filters": {"config.absent": 1}}, []),
}


@pytest.fixture(scope="module")
def answers(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Answers of the API about a few runs."""
    for number in range(COUNT):
        _make(server, number)
    questions = json.dumps({name: question for name, (question, _) in QUESTIONS.items()})
    printed = client.run(server, tmp_path_factory.mktemp("reading"), *client.script(READ), text=questions + "\n")
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def _make(server: Server, number: int) -> None:
    config = {"deep": {"value": {"rate": number}}} | ({} if number % 2 else {"even": {"value": True}})
    fields = {"groupName": f"g{number % 3}", "jobType": "search", "tags": [f"t{number % 5}"]}
    texts = {"config": json.dumps(config), "summaryMetrics": json.dumps({"dev/R10@1": -number})}
    client.upsert(server, "reading", f"run{number}", **fields, **texts)
    rows = [{"_step": step, "x": step, "loss": float("nan")} for step in range(ROWS if number == 3 else 2)]
    client.stream(server, "reading", f"run{number}", rows, complete=True, exitcode=int(number % 3 == 0))


@pytest.mark.parametrize("name", QUESTIONS)
def test_pages_filters_and_orders(answers: dict[str, Any], name: str):
    assert answers[name] == [f"run{number}" for number in QUESTIONS[name][1]]


def test_lists_come_in_pages(server: Server, answers: dict[str, Any]):
    assert sum(request.operation == "Runs" for request in server.requests) >= len(QUESTIONS) * 2


def test_a_scanned_history_is_whole_and_others_are_thinned(answers: dict[str, Any]):
    assert answers["full"] == list(range(ROWS))
    assert answers["some"] == [5, 6, 7, 8]
    assert answers["thinned"] == 500
    assert answers["sampled"] == [0, 200, 400]
    assert answers["last"] == ROWS - 1


def test_a_run_reads_as_it_was_written(answers: dict[str, Any]):
    expected = [{"deep": {"rate": 3}}, {"dev/R10@1": -3}, "failed", "g0", "search", ["t3"]]
    assert answers["run"] == expected
    assert answers["not a number"] == ["NaN", "NaN", "NaN"]
