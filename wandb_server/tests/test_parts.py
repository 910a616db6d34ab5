"""Parts of the server that need no process: filters, pages, draws, states."""

import math
from typing import Any

import pytest

from wandb_server.database import Document
from wandb_server.drawing import configuration
from wandb_server.executor import RefusedError, field
from wandb_server.filters import matches
from wandb_server.history import spelled, thinned
from wandb_server.paging import page
from wandb_server.runs import state

VALUES = {"number": 3, "text": "abc", "tags": ["a", "b"], "off": False}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, True),
        ({"number": 3, "text": "abc"}, True),
        ({"number": 3, "text": "ab"}, False),
        ({"number": {"$gte": 3, "$lt": 4}}, True),
        ({"number": {"$gt": 3}}, False),
        ({"number": {"$lte": 2}}, False),
        ({"text": {"$gt": 1}}, False),
        ({"absent": {"$lt": 1}}, False),
        ({"absent": {"$exists": False}}, True),
        ({"off": {"$exists": True}}, True),
        ({"absent": {"$ne": 1}}, True),
        ({"absent": None}, True),
        ({"tags": "a"}, True),
        ({"tags": {"$in": ["c", "b"]}}, True),
        ({"tags": {"$nin": ["c", "b"]}}, False),
        ({"text": {"$regex": "^b"}}, False),
        ({"number": {"$not": {"$eq": 3}}}, False),
        ({"$or": [{"number": 1}, {"text": "abc"}]}, True),
        ({"$nor": [{"number": 1}, {"text": "abc"}]}, False),
        ({"$and": [{"number": 3}, {"$or": [{"off": True}]}]}, False),
    ],
)
def test_filters(query: dict[str, Any], expected: bool):
    assert matches(VALUES.get, query) is expected


@pytest.mark.parametrize("query", [{"number": {"$near": 1}}, {"$xor": []}])
def test_unknown_operators_are_an_error(query: dict[str, Any]):
    with pytest.raises(RefusedError, match=r"unknown operator \$"):
        matches(VALUES.get, query)


def test_pages_neither_double_nor_hide_what_comes_while_one_reads():
    nodes: list[Document | dict[str, Any]] = [{"id": str(number)} for number in range(5)]
    first = page(nodes, first=2)
    assert first["pageInfo"] == {"endCursor": "1", "hasNextPage": True}
    newer = [{"id": "new"}, *nodes]
    rest = page(newer, after=first["pageInfo"]["endCursor"])
    assert [edge["node"]["id"] for edge in rest["edges"]] == ["2", "3", "4"]
    assert rest["pageInfo"]["hasNextPage"] is False
    with pytest.raises(RefusedError, match="no such cursor"):
        page(nodes, after="gone")


def test_a_grid_is_the_product_of_its_values():
    sweep = {"method": "grid", "parameters": {"a": {"values": [1, 2]}, "b": {"value": 0}, "c": {"values": ["x", "y"]}}}
    drawn = [configuration(sweep, "name", number) for number in range(5)]
    assert drawn[:2] == [{"a": 1, "b": 0, "c": "x"}, {"a": 1, "b": 0, "c": "y"}]
    assert [bool(values) for values in drawn] == [True] * 4 + [False]


def test_draws_are_inside_their_ranges_and_the_same_every_time():
    ranges = {"distribution": "log_uniform_values", "min": 1e-5, "max": 1e-3}
    parameters = {
        "rate": ranges,
        "size": {"min": 1, "max": 4, "distribution": "int_uniform"},
        "x": {"values": ["a", "b"]},
    }
    sweep = {"method": "bayes", "parameters": parameters}
    drawn = [configuration(sweep, "name", number) or {} for number in range(200)]
    assert all(1e-5 <= values["rate"] <= 1e-3 for values in drawn)
    assert {values["size"] for values in drawn} == {1, 2, 3, 4}
    assert {values["x"] for values in drawn} == {"a", "b"}
    assert 60 < sum(values["rate"] < 1e-4 for values in drawn) < 140
    assert drawn[7] == configuration(sweep, "name", 7) != configuration(sweep, "other", 7)


@pytest.mark.parametrize(
    "sweep",
    [
        {"method": "grid", "parameters": {"a": {"min": 0.0, "max": 1.0}}},
        {"method": "random", "parameters": {"a": {"distribution": "cauchy"}}},
        {"method": "clever", "parameters": {}},
    ],
)
def test_a_sweep_that_cannot_be_drawn_is_an_error(sweep: dict[str, Any]):
    with pytest.raises(RefusedError):
        configuration(sweep, "name", 0)


def test_what_json_has_no_number_for_is_a_word():
    row = {"a": math.nan, "b": [math.inf, {"c": -math.inf}], "d": 0.1, "e": None}
    assert spelled(row) == {"a": "NaN", "b": ["Infinity", {"c": "-Infinity"}], "d": 0.1, "e": None}


def test_histories_are_thinned_evenly():
    assert thinned(list(range(10)), 5) == [0, 2, 4, 6, 8]
    assert thinned(list(range(10)), 10) == thinned(list(range(10)), None) == list(range(10))


def test_a_run_without_a_sign_of_life_has_crashed():
    run = Document("Run", "p", "a", {"state": "running", "heartbeat": 100.0})
    assert state(run, now=110.0, crash_after=10.0) == "running"
    assert state(run, now=110.1, crash_after=10.0) == "crashed"
    run.body["state"] = "finished"
    assert state(run, now=1000.0, crash_after=10.0) == "finished"


def test_fields_must_be_in_the_schema():
    with pytest.raises(ValueError, match=r"no field Run\.nonsense"):
        field("Run", "nonsense")
