"""Lists in pages: a cursor is the name of a node, so what is added meanwhile neither doubles nor hides another."""

from collections.abc import Callable, Sequence
from typing import Any

from wandb_server.database import Document
from wandb_server.executor import RefusedError, identity

Node = Document | dict[str, Any]


def _cursor(node: Node) -> str:
    return identity(node) if isinstance(node, Document) else str(node["id"])


def page(
    nodes: Sequence[Node],
    after: str | None = None,
    first: int | None = None,
    edge: Callable[[Any], dict[str, Any]] = lambda node: {},
) -> dict[str, Any]:
    """A GraphQL connection: the `first` nodes (50 unless said) that follow the cursor `after`.

    `edge` gives what an edge holds in addition to its node. Raises `RefusedError` if the cursor's node is gone.
    """
    start = 0
    if after:
        cursors = [_cursor(node) for node in nodes]
        if after not in cursors:
            raise RefusedError(f"no such cursor: {after}")
        start = cursors.index(after) + 1
    chosen = nodes[start : start + (50 if first is None else first)]
    return {
        "edges": [{"cursor": _cursor(node), "node": node, **edge(node)} for node in chosen],
        "pageInfo": {
            "endCursor": _cursor(chosen[-1]) if chosen else after or "",
            "hasNextPage": start + len(chosen) < len(nodes),
        },
        "totalCount": len(nodes),
    }
