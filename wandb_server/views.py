"""Views: workspaces and reports. The server keeps them as it is given them."""

from typing import Any

from wandb_server.accounts import ensure_project, viewer
from wandb_server.database import Document
from wandb_server.executor import Site, by_identity, field
from wandb_server.paging import page


@field("Mutation", "upsertView")
def upsert_view(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    """Make a view, or change what is given of the one with that id or that name."""
    given = {key: value for key, value in input.items() if value is not None}
    project = ensure_project(site, given.get("projectName", "uncategorized"))
    name = given.get("name") or f"view-{len(site.database.all('View', project.name))}"
    found = by_identity(site, "View", given["id"]) if given.get("id") else None
    view = found or site.database.find("View", project.name, name)
    inserted = view is None
    view = view or site.database.add(Document("View", project.name, name, {"createdAt": site.timestamp}))
    keys = ("displayName", "description", "type", "spec")
    view.body |= {key: given[key] for key in keys if key in given} | {"updatedAt": site.timestamp}
    site.database.save(view)
    return {"view": view, "inserted": inserted}


@field("Mutation", "deleteView")
def delete_view(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    site.database.remove(by_identity(site, "View", input["id"]))
    return {"success": True, "pendingDrafts": []}


@field("Query", "view")
def view_by_id(site: Site, id: str) -> Document:
    return by_identity(site, "View", id)


@field("Project", "allViews")
def all_views(
    site: Site,
    project: Document,
    view_name: str | None = None,
    view_type: str | None = None,
    user_name: str | None = None,
    after: str | None = None,
    first: int | None = None,
) -> dict[str, Any]:
    """Views of that name and type; there is only one user."""
    of_type = [v for v in site.database.all("View", project.name) if view_type in (None, v.body.get("type"))]
    return page([view for view in of_type if view_name in (None, view.name)], after, first)


@field("View", "user")
def user(site: Site, view: Document) -> dict[str, Any]:
    return viewer(site)


@field("View", "project")
def project_of(site: Site, view: Document) -> Document:
    return ensure_project(site, view.project)
