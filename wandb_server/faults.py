"""Faults on purpose: kept in the database, where a test sets it and the server uses it up.

Each function belongs into a transaction.
"""

from dataclasses import asdict, dataclass

from wandb_server.database import Database


@dataclass(frozen=True)
class Fault:
    """A fault that the next requests of a kind have."""

    path: str
    """A part of the request's path, or the name of its GraphQL operation; empty for all but telemetry."""
    status: int | None
    """The answer's status; 0 cuts the connection; None leaves the answer as it is."""
    times: int | None
    """For how many requests; None for all that come."""
    seconds: float = 0.0
    """How long each of them waits."""
    retry_after: float | None = None
    """In seconds, sent as the header of that name."""
    done: bool = False
    """The request takes effect, only its answer is lost."""


def add(database: Database, fault: Fault) -> None:
    database.set("faults", [*database.setting("faults", []), asdict(fault)])


def clear(database: Database) -> None:
    database.set("faults", [])


def take(database: Database, path: str, operation: str) -> Fault | None:
    """The oldest fault that is meant for a request. The request uses it up once."""
    if path.startswith(("/healthz", "/sdk/otel/")):
        return None
    faults = [Fault(**entry) for entry in database.setting("faults", [])]
    for index, fault in enumerate(faults):
        if fault.path in path or fault.path == operation:
            if fault.times is not None:
                left = [Fault(**asdict(fault) | {"times": fault.times - 1})] if fault.times > 1 else []
                faults[index : index + 1] = left
                database.set("faults", [asdict(entry) for entry in faults])
            return fault
    return None
