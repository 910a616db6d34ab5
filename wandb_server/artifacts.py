"""Artifacts: created, filled with files, committed; then they are a version of their collection.

A client's statements about an artifact's content are checked when it commits. A manifest that names files which never
came is an error, so nothing counts as stored that is not.
"""

import json
from typing import Any

from wandb_server.accounts import ensure_project
from wandb_server.database import Database, Document
from wandb_server.executor import RefusedError, Site, by_identity, field, identity
from wandb_server.files import address, described, owner
from wandb_server.runs import named

MANIFEST = "wandb_manifest.json"


def committed(database: Database, project: str) -> dict[str, list[Document]]:
    """The committed artifacts of each collection of a project, by their version."""
    there = [a for a in database.all("Artifact", project) if a.body["state"] == "COMMITTED"]
    found: dict[str, list[Document]] = {}
    for artifact in sorted(there, key=lambda a: int(a.body["versionIndex"])):
        found.setdefault(artifact.body["collection"], []).append(artifact)
    return found


def versions(database: Database, collection: Document) -> list[Document]:
    """The committed artifacts of a collection, by their version."""
    return committed(database, collection.project).get(collection.name, [])


def contents(database: Database, artifact: Document) -> dict[str, bytes]:
    """The artifact's files by their names."""
    names = database.file_names(owner(artifact))
    return {name: database.file(owner(artifact), name) or b"" for name in names}


@field("Mutation", "createArtifact")
def create_artifact(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    """Begin a version; if one of that digest is there already, and the client wants it so, that one gets the aliases.

    https://github.com/wandb/wandb/pull/11340: any version counts, not only the latest.
    """
    project = ensure_project(site, input["projectName"])
    name = input.get("artifactCollectionName") or input["artifactCollectionNames"][0]
    collection = _collection(site, project.name, name, input["artifactTypeName"])
    aliases = [alias["alias"] for alias in input.get("aliases") or []]
    same = [v for v in versions(site.database, collection) if v.body["digest"] == input["digest"]]
    if same and input.get("enableDigestDeduplication"):
        _give(site, same[0], aliases)
        return {"artifact": same[0]}
    body = {
        "collection": name,
        "type": input["artifactTypeName"],
        "state": "PENDING",
        "digest": input["digest"],
        "digestAlgorithm": input.get("digestAlgorithm") or "MANIFEST_MD5",
        "description": input.get("description"),
        "metadata": input.get("metadata") or "{}",
        "aliases": aliases,
        "tags": [tag["tagName"] for tag in input.get("tags") or []],
        "historyStep": input.get("historyStep"),
        "createdAt": site.timestamp,
        "run": input.get("runName"),
        "clientID": input.get("clientID"),
    }
    number = len(site.database.all("Artifact", project.name))
    return {"artifact": site.database.add(Document("Artifact", project.name, f"{name}-{number}", body))}


def _collection(site: Site, project: str, name: str, kind: str) -> Document:
    found = site.database.find("ArtifactSequence", project, name)
    if found is None:
        body = {"type": kind, "state": "READY", "createdAt": site.timestamp}
        found = site.database.add(Document("ArtifactSequence", project, name, body))
    if found.body["type"] != kind:
        raise RefusedError(f"artifact {name} already exists with type {found.body['type']}, not {kind}")
    return found


@field("Mutation", "createArtifactManifest")
def create_artifact_manifest(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    return {"artifactManifest": manifest(site, by_identity(site, "Artifact", input["artifactID"]))}


@field("Mutation", "updateArtifactManifest")
def update_artifact_manifest(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    return {"artifactManifest": manifest(site, by_identity(site, "Artifact", input["artifactManifestID"]))}


@field("Artifact", "currentManifest")
def manifest(site: Site, artifact: Document) -> dict[str, Any]:
    """An artifact has one manifest, so this has the artifact's id."""
    file = described(site, owner(artifact, "manifest"), MANIFEST)
    return {"id": identity(artifact), "digest": artifact.body["digest"], "file": file}


@field("Mutation", "createArtifactFiles")
def create_artifact_files(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    edges = []
    for wanted in input["artifactFiles"]:
        artifact = by_identity(site, "Artifact", wanted["artifactID"])
        file = described(site, owner(artifact), wanted["name"]) | {"artifact": artifact}
        edges.append({"cursor": file["id"], "node": file})
    end = {"endCursor": edges[-1]["cursor"] if edges else "", "hasNextPage": False}
    return {"files": {"edges": edges, "pageInfo": end, "totalCount": len(edges)}}


@field("Mutation", "commitArtifact")
def commit_artifact(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    """Make the artifact the next version, and `latest`; a second time changes nothing."""
    artifact = by_identity(site, "Artifact", input["artifactID"])
    if artifact.body["state"] == "COMMITTED":
        return {"artifact": artifact}
    missing = _missing(site, artifact)
    if missing:
        raise RefusedError(
            f"artifact {artifact.body['collection']} lacks what its manifest names: {', '.join(missing)}"
        )
    collection = site.database.find("ArtifactSequence", artifact.project, artifact.body["collection"])
    assert collection is not None
    artifact.body |= {"state": "COMMITTED", "versionIndex": len(versions(site.database, collection))}
    _give(site, artifact, ["latest", *artifact.body["aliases"]])
    return {"artifact": artifact}


def _missing(site: Site, artifact: Document) -> list[str]:
    """Names in the manifest without a file of that content here; a file of an earlier version counts."""
    listed = site.database.file(owner(artifact, "manifest"), MANIFEST)
    if listed is None:
        return [MANIFEST]
    entries: dict[str, dict[str, Any]] = json.loads(listed)["contents"]
    here = site.database.file_names(owner(artifact))
    wanted = {name: entry["digest"] for name, entry in entries.items() if "ref" not in entry}
    return [
        name
        for name, digest in wanted.items()
        if name not in here or described(site, owner(artifact), name)["md5"] != digest
    ]


def _give(site: Site, artifact: Document, aliases: list[str]) -> None:
    """Give a version aliases. Only one version of a collection has each of them."""
    for other in site.database.all("Artifact", artifact.project):
        if other.number != artifact.number and other.body["collection"] == artifact.body["collection"]:
            other.body["aliases"] = [alias for alias in other.body["aliases"] if alias not in aliases]
            site.database.save(other)
    artifact.body["aliases"] = list(dict.fromkeys([*artifact.body["aliases"], *aliases]))
    site.database.save(artifact)


@field("Mutation", "updateArtifact")
def update_artifact(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    artifact = by_identity(site, "Artifact", input["artifactID"])
    artifact.body |= {key: input[key] for key in ("description", "metadata") if input.get(key) is not None}
    added, removed = ([tag["tagName"] for tag in input.get(key) or []] for key in ("tagsToAdd", "tagsToDelete"))
    artifact.body["tags"] = [tag for tag in dict.fromkeys([*artifact.body["tags"], *added]) if tag not in removed]
    site.database.save(artifact)
    if input.get("aliases") is not None:
        artifact.body["aliases"] = []
        _give(site, artifact, [alias["alias"] for alias in input["aliases"]])
    return {"artifact": artifact}


@field("Mutation", "useArtifact")
def use_artifact(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    artifact = by_identity(site, "Artifact", input["artifactID"])
    run = named(site, input["projectName"], input["runName"])
    used = run.body.setdefault("used", [])
    if artifact.number not in used:
        used.append(artifact.number)
        site.database.save(run)
    return {"artifact": artifact}


@field("Artifact", "filesByManifestEntries")
def files_by_manifest_entries(
    site: Site, artifact: Document, entries: list[dict[str, Any]], **where: Any
) -> dict[str, Any]:
    files = [{"name": entry["name"], "directUrl": address(site, owner(artifact), entry["name"])} for entry in entries]
    edges = [{"cursor": file["name"], "node": file} for file in files]
    end = {"endCursor": edges[-1]["cursor"] if edges else "", "hasNextPage": False}
    return {"edges": edges, "pageInfo": end, "totalCount": len(edges)}
