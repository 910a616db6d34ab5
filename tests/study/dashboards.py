"""Which keys a dashboard's JSON names, told by where they stand; a field of a panel that is not known here is refused,
since it might name one too."""

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
    return [panel for section in _sections(view) for panel in section["panels"]]


def named(view: Mapping[str, Any]) -> Keys:
    """Every key that the dashboard names.

    Raises:
        AssertionError: a panel has a field that is not known here.
    """
    found: Keys = {"history": set(), "summary": set(), "config": set(), "run": set()}
    section = view["spec"]["section"]
    (run_set,) = section["runSets"]
    axes = [section["settings"]["xAxis"], *(own["localPanelSettings"]["xAxis"] for own in _sections(view))]
    pairs = [("history", axis) for axis in axes]
    pairs += [pair for panel in panels(view) for pair in _of_panel(panel)]
    pairs += [(item["key"]["section"], item["key"]["name"]) for item in leaves(run_set["filters"])]
    pairs += [(item["key"]["section"], item["key"]["name"]) for item in run_set["sort"]["keys"]]
    pairs += [
        _accessor(column) for column in {*run_set["runFeed"]["columnVisible"], *run_set["runFeed"]["columnOrder"]}
    ]
    pairs += [(key["section"], key["name"]) for key in run_set["grouping"]]
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


def leaves(filters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The conditions of a filter, groups opened."""
    for item in filters["filters"]:
        if "filters" in item:
            yield from leaves(item)
        else:
            yield item


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
    if item["op"] == "IN":
        return value in item["value"]
    assert item["op"] == "="
    return bool(value == item["value"])


def _sections(view: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = view["spec"]["section"]["panelBankConfig"]["sections"]
    return found


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
