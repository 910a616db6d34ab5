"""The shipped files for clusters, and what a job's upload holds: checked by those who read them."""

import copy
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml
from ray._private.runtime_env.packaging import create_package
from ray.autoscaler._private.util import prepare_config, validate_config

ROOT = Path(__file__).parents[3]
CLUSTER = ROOT / "study" / "cluster"


def test_ray_takes_the_cluster_file():
    config = yaml.safe_load((CLUSTER / "cluster.yaml").read_text(encoding="utf-8"))
    filled = prepare_config(copy.deepcopy(config))
    validate_config(filled)
    assert config["head_node_type"] in config["available_node_types"]
    with pytest.raises(Exception, match="cluster_names"):  # the schema sees a wrong key
        validate_config(filled | {"cluster_names": "a"})


def test_the_kubernetes_job_has_what_kuberay_requires():
    job = yaml.safe_load((CLUSTER / "rayjob.yaml").read_text(encoding="utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert "python -m study.run" in job["spec"]["entrypoint"]
    cluster = job["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for group in groups:
        spec = group["template"]["spec"]
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())  # KubeRay takes only text
        mounted = {mount["name"] for container in spec["containers"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}
        assert all(container["image"] and container["name"] for container in spec["containers"])
    assert all({"groupName", "minReplicas", "maxReplicas"} <= group.keys() for group in cluster["workerGroupSpecs"])


def test_versions_are_those_of_the_lock_file():
    locked = dict(line.split("==") for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines()[1:])
    job = yaml.safe_load((CLUSTER / "rayjob.yaml").read_text(encoding="utf-8"))
    assert job["spec"]["rayClusterSpec"]["rayVersion"] == locked["ray"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_the_slurm_script_is_a_script():
    subprocess.run(["bash", "-n", str(CLUSTER / "slurm.sh")], check=True)


def test_an_upload_holds_the_packages_and_study_files_alone(tmp_path):
    place = tmp_path / "project"
    shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns(".git", ".venv", "results", ".*_cache", "build"))
    for name in ("results/quick/record.json", ".git/config", ".venv/bin/python", "wandb/run", "mine.toml", "data.tsv"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("x", encoding="utf-8")
    create_package(str(place), tmp_path / "upload.zip", include_gitignore=True)
    with zipfile.ZipFile(tmp_path / "upload.zip") as upload:
        names = {Path(name) for name in upload.namelist()}
    tops = {path.parts[0] for path in names}
    assert tops == {"analysis", "records", "search_spaces", "study", "trainables", "mine.toml"}
    wanted = ("study/run.py", "study/studies/quick.toml", "trainables/data/tasks/docstrings.py")
    assert {Path(name) for name in wanted} <= names
    assert not [path for path in names if "__pycache__" in path.parts]
    assert (tmp_path / "upload.zip").stat().st_size < 3_000_000
