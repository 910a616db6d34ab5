"""`wandb sync` of what was logged offline."""

from pathlib import Path

from wandb_server import Server, client

OFFLINE = """
config = {"x": 1}
run = wandb.init(project="synced", id="abc", resume="allow", mode="offline", config=config, dir=".", settings=SETTINGS)
for row in range(5):
    run.log({"row": row})
with open("scores.parquet", "w") as file:
    file.write("scores")
artifact = wandb.Artifact("scores-of-abc", type="scores")
artifact.add_file("scores.parquet")
run.log_artifact(artifact)
run.finish()
"""


def test_what_was_logged_offline_is_synced_once(server: Server, tmp_path: Path):
    client.run(server, tmp_path, *client.script(OFFLINE))
    assert server.runs("synced") == {}
    client.run(server, tmp_path, *client.wandb("sync", "wandb"))
    run = server.runs("synced")["abc"]
    assert [row["row"] for row in run.history] == list(range(5))
    assert run.artifacts == {"scores-of-abc": {"scores.parquet": b"scores"}}
    assert (run.config, run.summary, run.state) == ({"x": 1}, {"row": 4}, "finished")
    client.run(server, tmp_path, *client.wandb("sync", "--include-synced", "wandb"))
    assert server.runs("synced") == {"abc": run}
    assert run.versions == {"scores-of-abc": 1}
