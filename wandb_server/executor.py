"""Answers GraphQL: what clients ask, checked against the schema in schema/*.graphql, by the functions of `field`.

With a schema, graphql-core does all that a schema-less executor would have to do itself (fragments, types of unions,
defaults of variables, introspection). A question that this server does not know is an error with its name, as in the
real server. A guess would answer null, and a test would pass for no reason.

What a function returns is a `Document`, a mapping, or a list of these. Fields that no function answers are taken from
the mapping, or from the document's body, under their own names.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLObjectType,
    GraphQLResolveInfo,
    build_schema,
    execute_sync,
    parse,
    validate,
)

from wandb_server.database import Database, Document

_PARTS = sorted((Path(__file__).parent / "schema").glob("*.graphql"))
SCHEMA = build_schema("".join(part.read_text() for part in _PARTS))

Function = TypeVar("Function", bound=Callable[..., Any])
_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {}


@dataclass(frozen=True)
class Site:
    """The server's side of a request."""

    database: Database
    url: str
    """URL of this server, without a slash at its end."""
    now: float
    """Seconds since 1970."""

    @property
    def timestamp(self) -> str:
        return datetime.fromtimestamp(self.now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class RefusedError(Exception):
    """A request that the real server refuses, with its status of HTTP."""

    def __init__(self, reason: str, status: int = 400):
        super().__init__(reason)
        self.status = status


def field(type_name: str, name: str) -> Callable[[Function], Function]:
    """Have a function answer a field: called with the site, what the field belongs to, and arguments in snake case.

    Fields of Query and Mutation belong to nothing: their functions are called with the site and the arguments.
    """
    owner = SCHEMA.get_type(type_name)
    if not isinstance(owner, GraphQLObjectType) or name not in owner.fields:
        raise ValueError(f"the schema has no field {type_name}.{name}")

    def register(function: Function) -> Function:
        _FUNCTIONS[type_name, name] = function
        return function

    return register


def identity(document: Document) -> str:
    """A document's id for clients."""
    return b64encode(f"{document.kind}:{document.number}".encode()).decode()


def by_identity(site: Site, kind: str, given: str) -> Document:
    """The document that a client names by its id; raises `RefusedError`."""
    named = re.fullmatch(rb"(\w+):(\d+)", _decoded(given))
    document = site.database.get(kind, int(named[2])) if named and named[1].decode() == kind else None
    if document is None:
        raise RefusedError(f"{kind} {given} not found", status=404)
    return document


def _decoded(given: str) -> bytes:
    try:
        return b64decode(given)
    except ValueError:
        return b""


def execute(site: Site, query: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The data that answers a query; raises `RefusedError`, and every error of a function."""
    result = execute_sync(
        SCHEMA,
        _checked(query),
        context_value=site,
        variable_values=dict(variables),
        field_resolver=_resolve,
        type_resolver=lambda value, *_: str(value.kind),
    )
    for error in result.errors or ():
        known = isinstance(error.original_error, GraphQLError | None)
        raise RefusedError(error.message) if known else error.original_error
    return result.data or {}


@lru_cache(maxsize=512)
def _checked(query: str) -> DocumentNode:
    try:
        document = parse(query)
    except GraphQLError as error:
        raise RefusedError(error.message) from error
    for mistake in validate(SCHEMA, document):
        raise RefusedError(mistake.message)
    return document


def _resolve(source: Any, info: GraphQLResolveInfo, **arguments: Any) -> Any:
    function = _FUNCTIONS.get((info.parent_type.name, info.field_name))
    if function:
        owner = () if source is None else (source,)
        return function(info.context, *owner, **{_snake(name): value for name, value in arguments.items()})
    if isinstance(source, Mapping):
        return source[info.field_name]
    if info.field_name == "id":
        return identity(source)
    if info.field_name == "name":
        return source.name
    return source.body.get(info.field_name)


@lru_cache
def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
