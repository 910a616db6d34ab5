"""Keys that a dashboard's JSON names, by their place; an unknown field is an error, since it might also name one."""

from collections.abc import Iterator, Mapping
from typing import Any

Keys = dict[str, set[str]]
"""Where a key is logged (history, summary, config, or run for W&B's own attributes) -> names."""

_SAYS_NOTHING = {
    *("aggregate", "barLimit", "chartTitle", "columnWidths", "groupAgg", "groupArea", "limit", "onlyShowSelected"),
    *("pageSize", "vertical", "xAxisTitle"),
}
_METRICS = {"Run History Line Plot": "history", "Bar Chart": "summary", "Scalar Chart": "summary"}


def panels(view: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All panels, in their order."""
    return [panel for section in view["spec"]["section"]["panelBankConfig"]["sections"] for panel in section["panels"]]


def named(view: Mapping[str, Any]) -> Keys:
    """Every key that the dashboard names.

    Raises:
        AssertionError: a panel has a field that is not known here.
    """
    found: Keys = {"history": set(), "summary": set(), "config": set(), "run": set()}
    section = view["spec"]["section"]
    (run_set,) = section["runSets"]
    axes = [section["settings"], *(own["localPanelSettings"] for own in section["panelBankConfig"]["sections"])]
    pairs = [("history", settings["xAxis"]) for settings in axes]
    pairs += [pair for panel in panels(view) for pair in _of_panel(panel)]
    pairs += [pair for part in ("filters", "sort", "grouping") for pair in _of_runs(run_set[part])]
    pairs += map(_accessor, {*run_set["runFeed"]["columnVisible"], *run_set["runFeed"]["columnOrder"]})
    for place, name in pairs:
        found[place].add(name.removesuffix(".value") if place == "config" else name)
    return found


def missing(view: Mapping[str, Any], logged: Mapping[str, set[str]]) -> list[str]:
    """The keys that the dashboard names and no run logs.

    Args:
        view: the dashboard's JSON.
        logged: names by where they are logged: history, summary, config.
    """
    keys = named(view)
    return sorted(f"{place} {name}" for place, own in logged.items() for name in keys[place] - own)


def selects(filters: Mapping[str, Any], run: Mapping[str, Mapping[str, Any]]) -> bool:
    """Returns True if W&B shows a run: AND binds before OR, as in its editor of filters.

    Args:
        filters: of a run set.
        run: attributes by name under "run", configuration under "config".
    """
    alternatives: list[list[bool]] = [[]]
    for item in filters["filters"]:
        if item.get("connector") == "OR":
            alternatives.append([])
        alternatives[-1].append(selects(item, run) if "filters" in item else _holds(item, run))
    return any(all(conditions) for conditions in alternatives)


def _holds(item: Mapping[str, Any], run: Mapping[str, Mapping[str, Any]]) -> bool:
    value = run[item["key"]["section"]].get(item["key"]["name"])
    assert item["op"] in ("IN", "=")
    return bool(value in item["value"] if item["op"] == "IN" else value == item["value"])


def _of_runs(part: Any) -> Iterator[tuple[str, str]]:
    """The keys by which runs are chosen, sorted or grouped, however deep they stand."""
    if isinstance(part, dict) and {"section", "name"} <= part.keys():
        yield part["section"], part["name"]
    elif isinstance(part, dict | list):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from _of_runs(inner)


def _of_panel(panel: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    kind = panel["viewType"]
    for field, value in panel["config"].items():
        if field == "metrics":
            yield from ((_METRICS[kind], name) for name in value)
        elif field == "targetKey":
            yield "summary", value
        elif field == "groupBy":
            yield ("config" if value.endswith(".value") else "run"), value
        elif field == "columns":
            yield from (_accessor(column["accessor"]) for column in value)
        elif field in ("xAxis", "yAxis", "zAxis"):
            yield ("history", value) if kind == "Run History Line Plot" else _accessor(value)
        elif field in ("columnOrder", "columnsPinned"):
            yield from map(_accessor, value)
        else:
            assert field in _SAYS_NOTHING, f"{field} of a {kind}: does it name a key?"


def _accessor(text: str) -> tuple[str, str]:
    place, _, name = text.partition(":")
    return place, name
