"""Artifacts of the real client: stored, versioned, and read back byte by byte."""

import json
from pathlib import Path

from wandb_server import Server, client

LOGGED = """
for name, content in json.loads(sys.argv[-1]):
    run = wandb.init(project="artifacts", id=name, dir=".", settings=SETTINGS)
    with open("scores.parquet", "w") as file:
        file.write(content)
    artifact = wandb.Artifact("scores", type="scores", metadata={"of": name})
    artifact.add_file("scores.parquet")
    run.log_artifact(artifact, aliases=["of-" + name])
    run.finish()
"""

READ = """
api = wandb.Api()
found = {}
for alias in ("v0", "v1", "latest", "of-a", "of-b", "of-c"):
    artifact = api.artifact("laboratory/artifacts/scores:" + alias)
    place = artifact.download(root=alias)
    artifact.verify(root=place)
    found[alias] = [artifact.version, open(alias + "/scores.parquet").read(), artifact.logged_by().id]
logged = {run.id: [artifact.name for artifact in run.logged_artifacts()] for run in api.runs("laboratory/artifacts")}
print(json.dumps({"found": found, "logged": logged, "none": api.artifact_exists("laboratory/artifacts/scores:v2")}))
"""


def test_the_same_content_is_one_version(server: Server, tmp_path: Path):
    contents = json.dumps([("a", "first"), ("b", "second"), ("c", "first")])
    printed = json.loads(client.run(server, tmp_path, *client.script(LOGGED + READ), contents).splitlines()[-1])
    first, second = ["v0", "first", "a"], ["v1", "second", "b"]
    by_name = {"of-a": first, "of-b": second, "of-c": first}
    assert printed["found"] == {"v0": first, "v1": second, "latest": first, **by_name}
    assert printed["logged"] == {"a": ["scores:v0"], "b": ["scores:v1"], "c": []}
    assert printed["none"] is False
    runs = server.runs("artifacts")
    assert runs["a"].artifacts == {"scores": {"scores.parquet": b"first"}}
    assert runs["b"].artifacts == {"scores": {"scores.parquet": b"second"}}
    assert runs["c"].artifacts == {}
    assert runs["a"].versions == {"scores": 2}


def test_an_artifact_without_its_file_is_not_committed(server: Server, tmp_path: Path):
    server.fail(200, path="/store/Artifact")
    client.run(server, tmp_path, *client.script(LOGGED.replace('"artifacts"', '"incomplete"')), '[["a", "content"]]')
    assert server.runs("incomplete")["a"].artifacts == {}
    assert [r.status for r in server.requests if r.operation == "CommitArtifact"][-1] == 400
