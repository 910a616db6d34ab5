"""Artifacts as clients read them: collections, their versions, and the names of versions."""

from typing import Any

from wandb_server.accounts import ensure_project
from wandb_server.artifacts import versions
from wandb_server.database import Document
from wandb_server.executor import Site, by_identity, field, identity
from wandb_server.files import described, owner
from wandb_server.paging import page


@field("Query", "artifact")
def artifact_by_id(site: Site, id: str) -> Document:
    return by_identity(site, "Artifact", id)


@field("Query", "artifactCollection")
def collection_by_id(site: Site, id: str) -> Document:
    return by_identity(site, "ArtifactSequence", id)


@field("Query", "clientIDMapping")
def client_id_mapping(site: Site, client_id: str) -> dict[str, Any] | None:
    found = (a for a in site.database.all("Artifact") if a.body["clientID"] == client_id)
    return next(({"serverID": identity(artifact)} for artifact in found), None)


@field("Project", "artifactCollection")
def collection(site: Site, project: Document, name: str) -> Document | None:
    return site.database.find("ArtifactSequence", project.name, name)


@field("Project", "artifactCollectionMembership")
def membership_by_name(site: Site, project: Document, name: str) -> dict[str, Any] | None:
    """`name` is COLLECTION:ALIAS or COLLECTION:vNUMBER."""
    collection_name, _, alias = name.partition(":")
    found = collection(site, project, collection_name)
    return membership(site, found, alias) if found else None


@field("Project", "artifact")
def artifact_by_name(site: Site, project: Document, name: str) -> Document | None:
    found = membership_by_name(site, project, name)
    return found["artifact"] if found else None


@field("ArtifactSequence", "artifactMembership")
def membership(site: Site, collection: Document, alias_name: str | None = None) -> dict[str, Any] | None:
    wanted = alias_name or "latest"
    for artifact in versions(site.database, collection):
        if wanted in artifact.body["aliases"] or wanted == f"v{artifact.body['versionIndex']}":
            return _membership(site, artifact)
    return None


def _membership(site: Site, artifact: Document) -> dict[str, Any]:
    return {
        "id": identity(artifact),
        "versionIndex": artifact.body["versionIndex"],
        "createdAt": artifact.body["createdAt"],
        "aliases": aliases(site, artifact),
        "artifactCollection": sequence(site, artifact),
        "artifact": artifact,
    }


@field("ArtifactCollectionMembership", "files")
def files(
    site: Site,
    membership: dict[str, Any],
    names: list[str] | None = None,
    after: str | None = None,
    first: int | None = None,
) -> dict[str, Any]:
    where = owner(membership["artifact"])
    found = [name for name in site.database.file_names(where) if not names or name in names]
    return page([described(site, where, name) for name in found], after, first)


@field("Project", "artifactType")
def artifact_type(site: Site, project: Document, name: str) -> dict[str, Any] | None:
    return next((found for found in _types(site, project) if found["name"] == name), None)


@field("Project", "artifactTypes")
def artifact_types(site: Site, project: Document, after: str | None = None, first: int | None = None) -> dict[str, Any]:
    return page(_types(site, project), after, first)


def _types(site: Site, project: Document) -> list[dict[str, Any]]:
    collections = site.database.all("ArtifactSequence", project.name)
    names = dict.fromkeys(collection.body["type"] for collection in collections)
    return [_type(project, name) for name in names]


def _type(project: Document, name: str) -> dict[str, Any]:
    entry = {"id": f"{project.number}-{name}", "name": name, "description": None}
    return entry | {"createdAt": project.body["createdAt"], "project": project}


@field("ArtifactType", "artifactCollection")
def collection_of_type(site: Site, kind: dict[str, Any], name: str) -> Document | None:
    found = collection(site, kind["project"], name)
    return found if found and found.body["type"] == kind["name"] else None


@field("ArtifactType", "artifactCollections")
def collections_of_type(
    site: Site, kind: dict[str, Any], after: str | None = None, first: int | None = None, **unused: Any
) -> dict[str, Any]:
    collections = site.database.all("ArtifactSequence", kind["project"].name)
    return page([found for found in collections if found.body["type"] == kind["name"]], after, first)


@field("ArtifactSequence", "project")
def project_of(site: Site, collection: Document) -> Document:
    return ensure_project(site, collection.project)


@field("ArtifactSequence", "defaultArtifactType")
def type_of_collection(site: Site, collection: Document) -> dict[str, Any]:
    return _type(project_of(site, collection), collection.body["type"])


@field("ArtifactSequence", "tags")
def tags_of_collection(site: Site, collection: Document) -> dict[str, Any]:
    return {"edges": []}


@field("ArtifactSequence", "aliases")
def aliases_of_collection(
    site: Site, collection: Document, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    found = [alias for artifact in versions(site.database, collection) for alias in aliases(site, artifact)]
    return page(found, after, first)


@field("ArtifactSequence", "artifacts")
def artifacts_of_collection(
    site: Site, collection: Document, after: str | None = None, first: int | None = None, **unused: Any
) -> dict[str, Any]:
    """The newest version first."""
    newest = versions(site.database, collection)[::-1]
    return page(newest, after, first, lambda artifact: {"version": f"v{artifact.body['versionIndex']}"})


@field("ArtifactSequence", "latestArtifact")
def latest_artifact(site: Site, collection: Document) -> Document | None:
    found = versions(site.database, collection)
    return found[-1] if found else None


@field("ArtifactSequence", "digestAlgorithm")
def digest_algorithm(site: Site, collection: Document) -> str:
    return "MANIFEST_MD5"


@field("Artifact", "artifactSequence")
def sequence(site: Site, artifact: Document) -> Document | None:
    return site.database.find("ArtifactSequence", artifact.project, artifact.body["collection"])


@field("Artifact", "artifactType")
def artifact_type_of(site: Site, artifact: Document) -> dict[str, Any]:
    return _type(ensure_project(site, artifact.project), artifact.body["type"])


@field("Artifact", "aliases")
def aliases(site: Site, artifact: Document) -> list[dict[str, Any]]:
    here = sequence(site, artifact)
    names = artifact.body["aliases"] if artifact.body["state"] == "COMMITTED" else []
    return [{"id": f"{artifact.number}-{name}", "alias": name, "artifactCollection": here} for name in names]


@field("Artifact", "tags")
def tags(site: Site, artifact: Document) -> list[dict[str, Any]]:
    return [{"id": f"tag-{name}", "name": name} for name in artifact.body["tags"]]


@field("Artifact", "commitHash")
def commit_hash(site: Site, artifact: Document) -> str:
    return identity(artifact)


@field("Artifact", "size")
def size(site: Site, artifact: Document) -> int:
    where = owner(artifact)
    return sum(described(site, where, name)["sizeBytes"] for name in site.database.file_names(where))


@field("Artifact", "fileCount")
def file_count(site: Site, artifact: Document) -> int:
    return len(site.database.file_names(owner(artifact)))


@field("Artifact", "ttlDurationSeconds")
def ttl_duration_seconds(site: Site, artifact: Document) -> int:
    """Kept for ever."""
    return -1


@field("Artifact", "ttlIsInherited")
def ttl_is_inherited(site: Site, artifact: Document) -> bool:
    return False


@field("Artifact", "createdBy")
def created_by(site: Site, artifact: Document) -> Document | None:
    return site.database.find("Run", artifact.project, artifact.body["run"] or "")


@field("Artifact", "usedBy")
def used_by(site: Site, artifact: Document) -> dict[str, Any]:
    runs = site.database.all("Run", artifact.project)
    return page([run for run in runs if artifact.number in run.body.get("used", [])], first=len(runs))


@field("Artifact", "artifactMemberships")
def memberships(site: Site, artifact: Document) -> dict[str, Any]:
    return {"edges": [{"node": _membership(site, artifact)}]}


@field("Run", "outputArtifacts")
def output_artifacts(site: Site, run: Document, after: str | None = None, first: int | None = None) -> dict[str, Any]:
    logged = [a for a in site.database.all("Artifact", run.project) if a.body["run"] == run.name]
    return page([artifact for artifact in logged if artifact.body["state"] == "COMMITTED"], after, first)


@field("Run", "inputArtifacts")
def input_artifacts(site: Site, run: Document, after: str | None = None, first: int | None = None) -> dict[str, Any]:
    found = [artifact for artifact in site.database.all("Artifact") if artifact.number in run.body.get("used", [])]
    return page(found, after, first)
