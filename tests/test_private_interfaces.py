"""What is used of libraries beyond what they promise: each has an upper bound in pyproject.toml, and is named here.

A test that fails here says what a newer version has changed, and which file must follow.
"""

import inspect
import json
import tomllib
from functools import reduce
from importlib import import_module
from importlib.metadata import metadata, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from trainables.models.architectures import ARCHITECTURES

ROOT = Path(__file__).parents[1]
BOUNDED = ("optuna", "ray", "torch", "transformers", "wandb", "wandb-workspaces")


class Library:
    """A library of which tests collect what it lacks, to report it in one message.

    Args:
        name: as it is installed.
    """

    def __init__(self, name: str) -> None:
        self._name, self._gone = name, list[str]()

    def has(self, there: bool, what: str, where: str) -> None:
        if not there:
            self._gone.append(f"{what}, which {where} relies on")

    def attributes(self, owner: Any, names: str, where: str) -> None:
        """Each of `names`, which may be dotted."""
        for name in names.split():
            try:
                reduce(getattr, name.split("."), owner)
            except AttributeError:
                self.has(False, f"{getattr(owner, '__name__', type(owner).__name__)}.{name}", where)

    def mentions(self, module: str, texts: str, where: str) -> None:
        """The source of a module holds each of `texts`: names of variables, or attributes that only instances have."""
        try:
            source = inspect.getsource(import_module(module))
        except ImportError:
            source = ""
        for text in texts.split():
            self.has(text in source, f"{text} in {module}", where)

    def check(self) -> None:
        assert not self._gone, f"{self._name} {version(self._name)} has no longer: {'; '.join(self._gone)}"


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(line) for found in lists for line in found]


@pytest.mark.parametrize("name", BOUNDED)
def test_a_library_of_which_more_is_used_than_it_promises_has_an_upper_bound(name: str) -> None:
    asked = [requirement.specifier for requirement in requirements() if requirement.name == name]
    assert asked
    for specifier in asked:
        assert any(one.operator in ("<", "==", "~=") for one in specifier), f"{name}{specifier}"


def test_the_locked_versions_are_within_the_bounds() -> None:
    lines = [line for path in ROOT.glob("requirements*.lock") for line in path.read_text("utf-8").splitlines()[1:]]
    locked = {canonicalize_name(name): found for name, found in (line.split("==") for line in lines)}
    assert len(locked) == len(lines)  # each in one file
    asked = [(canonicalize_name(requirement.name), requirement.specifier) for requirement in requirements()]
    outside = [f"{name} {locked[name]}" for name, bound in asked if name in locked and not bound.contains(locked[name])]
    assert outside == []


def test_the_installed_packages_take_the_first_python_that_is_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (first,) = [one.version for one in SpecifierSet(project["requires-python"]) if one.operator == ">="]
    files = (ROOT / "requirements.lock", ROOT / "requirements-test.lock")
    names = [line.split("==")[0] for path in files for line in path.read_text("utf-8").splitlines()[1:]]
    asked = {name: metadata(name).get("Requires-Python", "") for name in names}
    assert {name: bound for name, bound in asked.items() if f"{first}.0" not in SpecifierSet(bound)} == {}


def test_a_library_without_it_is_told_in_one_line() -> None:
    lacking = Library("optuna")
    lacking.attributes(json, "dumps no_such.thing", "study/one.py")
    lacking.mentions("json", "JSONEncoder _no_such_variable", "study/two.py")
    with pytest.raises(AssertionError) as caught:
        lacking.check()
    first, second = "json.no_such.thing, which study/one.py", "_no_such_variable in json, which study/two.py"
    found = str(caught.value).splitlines()[0]
    assert found == f"optuna {version('optuna')} has no longer: {first} relies on; {second} relies on"


def test_ray() -> None:
    import ray
    from ray.actor import ActorHandle
    from ray.autoscaler._private import util
    from ray.tune.execution import class_cache
    from ray.tune.experiment.trial import Trial, _TemporaryTrialState
    from ray.tune.utils.object_cache import _ObjectCache

    library = Library("ray")
    library.attributes(ray._private.worker, "_worker_logs_enabled", "study/execution/tuner.py")
    library.attributes(_ObjectCache, "increase_max", "study/execution/tuner.py")
    library.has(
        "by" in inspect.signature(_ObjectCache.increase_max).parameters, "increase_max(by=)", "study/execution/tuner.py"
    )
    library.mentions("ray.tune.execution.tune_controller", "self._actor_cache", "study/execution/tuner.py")
    library.attributes(class_cache, "ENV_VARS_TO_PROPAGATE.clear", "study/execution/tuner.py")
    library.attributes(Trial, "error_file pickled_error_file", "study/execution/failure.py")
    own = "temporary_state placement_group_factory"
    library.attributes(Trial("worker", stub=True), own, "study/execution/node_monitor.py, study/execution/tuner.py")
    library.attributes(_TemporaryTrialState(), "ray_actor", "study/execution/node_monitor.py")
    library.mentions("ray.actor", "__ray_call__", "study/execution/node_monitor.py")
    library.attributes(ActorHandle, "_actor_method_call", "study/execution/node_monitor.py, for __ray_call__")
    variables = {
        "ray.tune.experimental.output": "RAY_AIR_NEW_OUTPUT",
        "ray.tune.utils.callback": "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS",
        "ray.tune.execution.tune_controller": "TUNE_DISABLE_STRICT_METRIC_CHECKING",
        "ray.tune.tune": "TUNE_DISABLE_SIGINT_HANDLER",
        "ray._private.accelerators.accelerator": "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO",
        "ray._common.usage.usage_constants": "RAY_USAGE_STATS_ENABLED",
        "ray._private.node": "RAY_gcs_server_port_wait_time_s",
        "ray._private.runtime_env.constants": "RAY_JOB_CONFIG_JSON_ENV_VAR",
    }
    for module, name in variables.items():
        library.mentions(module, name, "study/execution/connect.py")
    library.has("could not find any running" in inspect.getsource(ray._private.services).lower(), "words", "joining.py")
    library.mentions("ray._private.worker", "set_sigterm_handler sys.exit(signum)", "trainables/utils/interruption.py")
    library.attributes(ray.exceptions, "AuthenticationError", "study/execution/connect.py")
    library.mentions("ray.exceptions", "self.cause", "study/execution/failure.py, study/execution/nodes.py")
    programs = Path(ray.__file__).parent / "core" / "src" / "ray"
    words = {
        "gcs/gcs_server": b"its node has died",
        "raylet/raylet": b"running low on memory",
    }
    for program, text in words.items():
        found = text in (programs / program).read_bytes()
        library.has(found, f"{text.decode()!r} in {program}", "study/utils/error_text.py")
    library.attributes(util, "prepare_config validate_config", "tests/study/execution/test_cluster_files.py")
    packaging = import_module("ray._private.runtime_env.packaging")
    library.attributes(packaging, "create_package", "tests/study/execution/test_cluster_files.py")
    library.check()


def test_wandb() -> None:
    import wandb
    from wandb.apis.public import Run
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.lib.service.service_connection import WandbApiFailedError

    library = Library("wandb")
    fields = {
        "Record": "run config summary history artifact exit",
        "RunRecord": "run_group job_type config",
        "ConfigRecord": "update",
        "SummaryRecord": "update remove",
        "HistoryRecord": "item",
        "ConfigItem": "key nested_key value_json",
        "SummaryItem": "key nested_key value_json",
        "HistoryItem": "key nested_key value_json",
        "ArtifactRecord": "name manifest",
        "ArtifactManifestEntry": "path local_path digest",
    }
    for message, names in fields.items():
        found = wandb_internal_pb2.DESCRIPTOR.message_types_by_name[message].fields_by_name
        for name in names.split():
            library.has(name in found, f"{message}.{name} of its files", "analysis/readers/wandb_offline.py")
    library.attributes(wandb.Run, "starting_step settings", "study/tracking/wandb_run.py")
    users = "study/tracking/wandb_run.py, analysis/readers/wandb_server.py"
    library.attributes(wandb.Settings(), "sync_file base_url", users)
    private = (
        "x_disable_machine_info x_disable_meta x_disable_stats x_save_requirements host init_timeout finish_timeout"
    )
    library.attributes(wandb.Settings(), private, "study/tracking/tracking_settings.py")
    library.has(
        "create_new" in str(wandb.Settings.model_fields["reinit"].annotation), "reinit=create_new", "session.py"
    )
    library.has(issubclass(WandbApiFailedError, Exception), "WandbApiFailedError", "analysis/readers/wandb_server.py")
    library.mentions(WandbApiFailedError.__module__, "response", "analysis/readers/wandb_server.py")
    library.attributes(wandb.env, "get_http_timeout", "analysis/readers/wandb_server.py")
    library.mentions("wandb.sdk.wandb_setup", "singleton _connection", "analysis/readers/wandb_server.py")
    library.mentions("wandb.sdk.lib.service.service_connection", "_proc", "analysis/readers/wandb_server.py")
    library.mentions("wandb.sdk.lib.service.service_process", "_process", "analysis/readers/wandb_server.py")
    rows = "historyLineCount historyKeys lastHistoryStep summary_metrics heartbeat_at logged_artifacts scan_history"
    library.mentions(Run.__module__, rows, "analysis/readers/wandb_project.py, study/tracking/wandb_run.py")
    library.has(
        "use_cache" in inspect.signature(Run.scan_history).parameters, "scan_history(use_cache=)", "wandb_project"
    )
    library.mentions("wandb.env", "WANDB_SWEEP_ID WANDB_SWEEP_PARAM_PATH", "study/tracking/agent_env.py")
    library.check()


def test_wandb_workspaces() -> None:
    import wandb_workspaces.workspaces as ws

    library = Library("wandb-workspaces")
    private = "_internal_name _internal_id _to_model"
    made = ws.Workspace(entity="", project="p")
    library.attributes(made, private, "study/wandb_workspace/workspace.py")
    library.check()


def test_torch() -> None:
    import torch

    library = Library("torch")
    names = "ops.mkldnn._reorder_linear_weight ops.mkldnn._linear_pointwise"
    library.attributes(torch, names, "trainables/models/prepacked.py")
    library.check()


def test_optuna() -> None:
    import optuna

    library = Library("optuna")
    storage = optuna.storages.RDBStorage("sqlite://")
    library.attributes(storage, "engine remove_session", "analysis/export/optuna.py")
    experimental = {"TPESampler": "multivariate group constant_liar", "GPSampler": "deterministic_objective"}
    for name, options in experimental.items():
        known = inspect.signature(getattr(optuna.samplers, name)).parameters
        for option in options.split():
            library.has(option in known, f"{name}({option}=)", "search_spaces/samplers.py")
    library.attributes(optuna.Study, "set_metric_names", "analysis/export/optuna.py")
    library.check()


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_transformers(kind: str) -> None:
    """The parts of its models, by the names of the registry."""
    from transformers import AttentionInterface, AutoConfig, AutoModel

    from trainables.models.layers import get_part

    library, architecture = Library("transformers"), ARCHITECTURES[kind]
    size = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 8, "pad_token_id": 1}
    names = {"hidden_size": "dim", "num_attention_heads": "n_heads", "intermediate_size": "hidden_dim"}
    own = {names.get(key, key) if kind == "distilbert" else key: value for key, value in size.items()}
    config = AutoConfig.for_model(kind, **own, **{architecture.layer_count: 1})
    model = AutoModel.from_config(config)
    user = "trainables/models/transformer.py"
    library.attributes(model, "embeddings resize_token_embeddings get_input_embeddings", user)
    library.attributes(model.config, "initializer_range hidden_size vocab_size num_hidden_layers", user)
    library.has(hasattr(config, architecture.layer_count), f"{kind}'s {architecture.layer_count}", user)
    for name in architecture.dropouts:
        library.has(hasattr(config, name), f"{kind}'s {name}", user)
    user = "trainables/models/architectures.py"
    paths = (architecture.layers, architecture.word_embeddings, architecture.projection, architecture.final_norm)
    for path in (*paths, architecture.rotary, architecture.pooler):
        library.has(path is None or get_part(model, path) is not None, f"{kind}'s {path}", user)
    if architecture.positions_follow_padding:
        library.attributes(model.embeddings, "padding_idx", "trainables/models/layers.py")
    parameters = inspect.signature(type(model.embeddings).forward).parameters
    library.has("input_ids" in parameters, f"{kind}'s embeddings(input_ids=)", "trainables/models/layers.py")
    if architecture.padding_mask is None:
        user = "trainables/models/attention.py"
        library.attributes(AttentionInterface, "register", user)
        library.attributes(model, "set_attn_implementation", user)
        library.has(model._can_set_attn_implementation(), f"{kind}'s attention by the AttentionInterface", user)
    else:
        encoder = get_part(model, architecture.layers.rpartition(".")[0])
        parameters = inspect.signature(type(encoder).forward).parameters
        taken = [*parameters][1:3] == ["hidden_states", "attention_mask"] and "output_hidden_states" in parameters
        library.has(taken, f"{kind}'s encoder(hidden_states, attention_mask)", "trainables/models/layers.py")
        part = architecture.first_layer_part
        library.has(part is None or hasattr(encoder, part), f"{kind}'s encoder.{part}", "trainables/models/layers.py")
    library.has(
        "mean_resizing" in inspect.signature(model.resize_token_embeddings).parameters, "mean_resizing", "transformer"
    )
    library.check()
