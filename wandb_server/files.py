"""Files of runs and artifacts: where clients put them, and what the server says of them.

The real server signs addresses of a store that asks for no key, and so does this one, except for the signature.
"""

import fnmatch
from base64 import b64encode
from hashlib import md5
from typing import Any
from urllib.parse import quote

from wandb_server.database import Document
from wandb_server.executor import Site, field, identity
from wandb_server.paging import page
from wandb_server.runs import named


def owner(document: Document, what: str = "files") -> str:
    """Under what name the database keeps a document's files."""
    return f"{document.kind}-{document.number}-{what}"


def address(site: Site, owner: str, name: str) -> str:
    """Return the address at which a file is put and got."""
    return f"{site.url}/store/{owner}/{quote(name, safe='')}"


def described(site: Site, owner: str, name: str) -> dict[str, Any]:
    """A file as GraphQL tells of it, whether its content is there already or not."""
    content = site.database.file(owner, name) or b""
    digest = b64encode(md5(content).digest()).decode()
    url = address(site, owner, name)
    return {
        "id": f"{owner}/{name}",
        "name": name,
        "displayName": name,
        "url": url,
        "directUrl": url,
        "uploadUrl": url,
        "uploadHeaders": [],
        "uploadMultipartUrls": None,
        "sizeBytes": len(content),
        "storagePath": name,
        "mimetype": "application/octet-stream",
        "updatedAt": site.timestamp,
        "digest": digest,
        "md5": digest,
        "artifact": None,
    }


@field("Mutation", "createRunFiles")
def create_run_files(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    run = named(site, input["projectName"], input["runName"])
    files = [described(site, owner(run), name) for name in input["files"]]
    return {"runID": identity(run), "uploadHeaders": [], "files": files}


@field("Mutation", "markRunFilesUploaded")
def mark_run_files_uploaded(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    """Nothing to mark: a file is there as soon as its content is."""
    named(site, input["projectName"], input["runName"])
    return {"success": True}


@field("Run", "fileCount")
def file_count(site: Site, run: Document) -> int:
    return len(site.database.file_names(owner(run)))


@field("Run", "files")
def files(
    site: Site,
    run: Document,
    names: list[str] | None = None,
    pattern: str | None = None,
    after: str | None = None,
    first: int | None = None,
) -> dict[str, Any]:
    """`pattern` is that of LIKE in SQL."""
    found = [name for name in site.database.file_names(owner(run)) if not names or name in names]
    if pattern:
        found = fnmatch.filter(found, pattern.replace("%", "*").replace("_", "?"))
    return page([described(site, owner(run), name) for name in found], after, first)
