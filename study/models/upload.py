"""Uploads an exported model: to the Hugging Face hub, and to W&B as an artifact of its run."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from study.config.schema import Study
from study.models.chosen import ChosenRun
from study.tracking.tracking_settings import PRIVATE_SETTINGS, prepare_client_folder
from study.utils.error_text import redact, summarize_server_error
from trainables.utils.errors import MachineError, UserError


def check_repository(name: str) -> None:
    """Check the name of a repository, and that there is a key for it, before a model is written.

    Raises:
        UserError: the name is not OWNER/NAME, or there is no key.
    """
    from huggingface_hub import get_token

    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise UserError("--push", repr(name), "a repository as OWNER/NAME")
    if get_token() is None:
        raise UserError("--push", "no key of the Hugging Face hub", "HF_TOKEN in the environment, or `hf auth login`")


def push_to_hub(folder: Path, name: str) -> str:
    """Upload a folder to a repository, which is created as a private one if it does not exist.

    Returns:
        The URL of the repository.

    Raises:
        MachineError: the hub does not answer, or refuses the upload.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        url = api.create_repo(name, private=True, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="Add the model and its card")
    except Exception as error:  # errors of the library, and of the one that it sends requests with
        raise MachineError(
            f"the model is in {folder}, but not in the repository {name}: {redact(summarize_server_error(error))}",
            f"upload it with `hf upload {name} {shlex.quote(str(folder))}`",
        ) from error
    return str(url)


def check_tracking(study: Study) -> None:
    """Check that a study tracks online, before a model is written.

    Raises:
        UserError: it does not.
    """
    if study.tracking.mode != "online":
        expected = "tracking.mode=online, after `python -m study.sync` if the runs are not on the server yet"
        raise UserError("--wandb", f"tracking.mode is {study.tracking.mode}", expected)


def log_artifacts(study: Study, runs: Sequence[ChosenRun], folders: Sequence[Path]) -> str:
    """Log each model as an artifact of type "model" in the W&B run that trained it.

    Returns:
        The names of the artifacts.

    Raises:
        MachineError: the server does not answer, or does not have a run.
    """
    return ", ".join(_log_model(study, run, folder) for run, folder in zip(runs, folders, strict=True))


def _log_model(study: Study, run: ChosenRun, folder: Path) -> str:
    prepare_client_folder(study.folder / "wandb")
    import wandb

    name = f"model-{run.specification.id}"
    try:
        session = wandb.init(
            mode="online",
            project=study.project,
            entity=study.tracking.entity,
            id=run.specification.id,
            resume="must",
            dir=study.folder,
            settings=wandb.Settings(**PRIVATE_SETTINGS),
        )
        artifact = wandb.Artifact(name, type="model", metadata={"system": run.system, "seed": run.specification.seed})
        artifact.add_dir(str(folder))
        session.log_artifact(artifact).wait()
        session.finish()
    except Exception as error:  # errors of the client, and of the service that it starts
        raise MachineError(
            f"the model is in {folder}, but not in W&B: {redact(summarize_server_error(error))}",
            f"log it with `wandb artifact put --type model {shlex.quote(str(folder))}`, or export to another folder",
        ) from error
    return name
