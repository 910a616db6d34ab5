"""Configurations of a sweep: the product of all values, or draws at random.

`bayes` draws at random too: what a search of W&B's own would suggest is no concern of these tests. A draw depends on
the sweep and its number alone, so a server that was killed goes on with the same ones.
"""

import math
from collections.abc import Callable, Mapping
from itertools import product
from random import Random
from typing import Any

from wandb_server.executor import RefusedError

Parameters = Mapping[str, Mapping[str, Any]]

_DISTRIBUTIONS: dict[str, Callable[[Random, Mapping[str, Any]], Any]] = {
    "int_uniform": lambda draw, p: draw.randint(p["min"], p["max"]),
    "uniform": lambda draw, p: draw.uniform(p["min"], p["max"]),
    "q_uniform": lambda draw, p: round(draw.uniform(p["min"], p["max"]) / p.get("q", 1)) * p.get("q", 1),
    "log_uniform": lambda draw, p: math.exp(draw.uniform(p["min"], p["max"])),
    "log_uniform_values": lambda draw, p: math.exp(draw.uniform(math.log(p["min"]), math.log(p["max"]))),
    "normal": lambda draw, p: draw.gauss(p.get("mu", 0.0), p.get("sigma", 1.0)),
}


def configuration(sweep: Mapping[str, Any], name: str, number: int) -> dict[str, Any] | None:
    """The configuration of that number, from 0; None where a grid has no more.

    `sweep` is the parsed YAML. Raises `RefusedError` at a method or a distribution that is not known.
    """
    parameters: Parameters = sweep["parameters"]
    if sweep["method"] == "grid":
        grid = list(product(*(_choices(key, parameter) for key, parameter in parameters.items())))
        return dict(zip(parameters, grid[number], strict=True)) if number < len(grid) else None
    if sweep["method"] in ("random", "bayes"):
        draw = Random(f"{name}-{number}")
        return {key: _drawn(draw, key, parameter) for key, parameter in parameters.items()}
    raise RefusedError(f"no such method of search: {sweep['method']}")


def _choices(name: str, parameter: Mapping[str, Any]) -> list[Any]:
    if "value" in parameter:
        return [parameter["value"]]
    if "values" in parameter:
        return list(parameter["values"])
    if parameter.get("distribution") == "int_uniform":
        return list(range(parameter["min"], parameter["max"] + 1))
    raise RefusedError(f"a grid needs values of {name}")


def _drawn(draw: Random, name: str, parameter: Mapping[str, Any]) -> Any:
    if "value" in parameter:
        return parameter["value"]
    if "values" in parameter:
        return draw.choices(parameter["values"], parameter.get("probabilities"))[0]
    distribution = parameter.get("distribution", "uniform")
    if distribution not in _DISTRIBUTIONS:
        raise RefusedError(f"no such distribution of {name}: {distribution}")
    return _DISTRIBUTIONS[distribution](draw, parameter)
