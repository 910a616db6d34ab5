"""The one user of the server, and the projects."""

from typing import Any

from wandb_server.database import Document
from wandb_server.executor import Site, field
from wandb_server.paging import page

ENTITY = "laboratory"
"""Owner of everything."""
USER = "somebody"

FEATURES = (
    "ARTIFACT_COLLECTION_MEMBERSHIP_FILES",
    "ARTIFACT_DIGEST_ALGORITHM",
    "ARTIFACT_TAGS",
    "CLIENT_IDS",
    "FILESTREAM_GZIP",
    "MARK_RUN_FILES_UPLOADED",
    "PROJECT_ARTIFACT_COLLECTION_MEMBERSHIP",
    "SWEEPS_LOCAL_SCHEDULER",
    "TOTAL_COUNT_IN_FILE_CONNECTION",
    "USE_ARTIFACT_WITH_ENTITY_AND_PROJECT_INFORMATION",
)
"""What clients ask about before they use it."""


def ensure_project(site: Site, name: str) -> Document:
    """The project of that name, made if there is none."""
    found = site.database.find("Project", "", name)
    return found or site.database.add(Document("Project", "", name, {"createdAt": site.timestamp}))


@field("Query", "viewer")
@field("Project", "user")
def viewer(site: Site, project: Document | None = None) -> dict[str, Any]:
    names = {"name": USER, "username": USER, "email": f"{USER}@example.org", "entity": ENTITY}
    none: dict[str, Any] = {"apiKeys": {"edges": []}, "teams": {"edges": []}, "organizations": []}
    return {"id": "VXNlcjox", "admin": False, "flags": "{}", "deletedAt": None, "photoUrl": None, **names, **none}


@field("Query", "serverInfo")
def server_info(site: Site) -> dict[str, Any]:
    return {
        "features": [{"name": name, "isEnabled": True} for name in FEATURES],
        "cliVersionInfo": {"min_cli_version": "0.10.0", "max_cli_version": "99.0.0"},
        "latestLocalVersionInfo": None,
    }


@field("Query", "entity")
def entity(site: Site, name: str | None = None) -> dict[str, Any] | None:
    return _entity() if name in (None, ENTITY) else None


@field("Project", "entity")
def project_entity(site: Site, project: Document) -> dict[str, Any]:
    return _entity()


def _entity() -> dict[str, Any]:
    flags = {"available": False, "isTeam": False, "xxhashDigestsEnabled": False}
    return {"id": "RW50aXR5OjE=", "name": ENTITY, "organization": None, "user": None, **flags}


@field("Query", "organization")
def organization(site: Site, name: str | None = None) -> None:
    """There are no organizations here."""


@field("Query", "project")
@field("Query", "model")
def project(site: Site, name: str | None = None, entity_name: str | None = None) -> Document | None:
    if entity_name not in (None, "", ENTITY):
        return None
    return site.database.find("Project", "", name or "uncategorized")


@field("Query", "models")
def models(
    site: Site, entity_name: str | None = None, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    return page(site.database.all("Project") if entity_name in (None, ENTITY) else [], after, first)


@field("Mutation", "upsertModel")
def upsert_model(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    inserted = site.database.find("Project", "", input["name"]) is None
    made = ensure_project(site, input["name"])
    return {"project": made, "model": made, "inserted": inserted}


@field("Project", "entityName")
def entity_name(site: Site, project: Document) -> str:
    return ENTITY


@field("Project", "internalId")
def internal_id(site: Site, project: Document) -> str:
    return str(project.number)


@field("Project", "readOnly")
@field("Project", "isBenchmark")
def no(site: Site, project: Document) -> bool:
    return False
