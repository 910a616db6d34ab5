"""Private interfaces of libraries that are used: each has an upper bound in pyproject.toml, and is named here.

A test that fails here says what a newer version has changed, and which file must follow.
"""

import inspect
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
BOUNDED = ("optuna", "peft", "ray", "torch", "transformers", "wandb", "wandb-workspaces")
USES = {
    "ray": {
        "study/execution/connect.py": """
            ray.exceptions: AuthenticationError
            ray._private.services ~ Could not find any running
            ray.tune.experimental.output ~ RAY_AIR_NEW_OUTPUT
            ray.tune.utils.callback ~ TUNE_DISABLE_AUTO_CALLBACK_LOGGERS
            ray.tune.execution.tune_controller ~ TUNE_DISABLE_STRICT_METRIC_CHECKING
            ray.tune.tune ~ TUNE_DISABLE_SIGINT_HANDLER
            ray._private.accelerators.accelerator ~ RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO
            ray._common.usage.usage_constants ~ RAY_USAGE_STATS_ENABLED
            ray._private.node ~ RAY_gcs_server_port_wait_time_s
            ray._private.runtime_env.constants ~ RAY_JOB_CONFIG_JSON_ENV_VAR
        """,
        "study/execution/tuner.py": """
            ray._private.worker: _worker_logs_enabled
            ray.tune.utils.object_cache: inspect.signature(_ObjectCache.increase_max).parameters["by"]
            ray.tune.execution.tune_controller ~ self._actor_cache
            ray.tune.execution.class_cache: ENV_VARS_TO_PROPAGATE.clear
            ray.tune.experiment.trial: Trial("worker", stub=True).placement_group_factory
        """,
        "study/execution/node_monitor.py": """
            ray.tune.experiment.trial: Trial("worker", stub=True).temporary_state
            ray.tune.experiment.trial: _TemporaryTrialState().ray_actor
            ray.actor ~ __ray_call__
            ray.actor: ActorHandle._actor_method_call
        """,
        "study/execution/failure.py": """
            ray.tune.experiment.trial: Trial.error_file, Trial.pickled_error_file
            ray.exceptions ~ self.cause
        """,
        "study/utils/error_text.py": """
            ray: b"its node has died" in open(f"{__path__[0]}/core/src/ray/gcs/gcs_server", "rb").read() or lacking
            ray: b"running low on memory" in open(f"{__path__[0]}/core/src/ray/raylet/raylet", "rb").read() or lacking
        """,
        "trainables/utils/interruption.py": """
            ray._private.worker ~ set_sigterm_handler, sys.exit(signum)
        """,
        "benchmarks/driver.py": """
            ray.tune.execution.class_cache: _ActorClassCache.get
            ray.air.execution._internal.actor_manager ~ isinstance(actor_cls, ray.actor.ActorClass)
        """,
        "tests/study/execution/test_cluster_files.py": """
            ray.autoscaler._private.util: prepare_config, validate_config
            ray._private.runtime_env.packaging: create_package
        """,
    },
    "wandb": {
        "study/tracking/wandb_run.py": """
            wandb: Run.starting_step, Run.settings, Settings().sync_file, Settings().base_url
            wandb: "create_new" in str(Settings.model_fields["reinit"].annotation) or lacking
        """,
        "study/tracking/tracking_settings.py": """
            wandb: Settings().x_disable_machine_info, Settings().x_disable_meta, Settings().x_disable_stats
            wandb: Settings().x_save_requirements, Settings().host, Settings().init_timeout, Settings().finish_timeout
        """,
        "study/tracking/agent_env.py": """
            wandb.env ~ WANDB_SWEEP_ID, WANDB_SWEEP_PARAM_PATH
        """,
        "analysis/readers/wandb_server.py": """
            wandb: env.get_http_timeout
            wandb.sdk.lib.service.service_connection: WandbApiFailedError.__traceback__
            wandb.sdk.lib.service.service_connection ~ response
            wandb.sdk.wandb_setup ~ singleton, _connection
            wandb.sdk.lib.service.service_connection ~ _proc
            wandb.sdk.lib.service.service_process ~ _process
        """,
        "analysis/readers/wandb_project.py": """
            wandb.apis.public.runs ~ historyLineCount, historyKeys, lastHistoryStep, summary_metrics, heartbeat_at
            wandb.apis.public.runs ~ logged_artifacts
            wandb.apis.public.runs: inspect.signature(Run.scan_history).parameters["use_cache"]
        """,
        "analysis/readers/wandb_offline.py": """
            wandb.proto.wandb_internal_pb2: Record().run, Record().config, Record().summary, Record().history
            wandb.proto.wandb_internal_pb2: Record().artifact, Record().exit
            wandb.proto.wandb_internal_pb2: RunRecord().run_group, RunRecord().job_type, RunRecord().config
            wandb.proto.wandb_internal_pb2: ConfigRecord().update, SummaryRecord().update, SummaryRecord().remove
            wandb.proto.wandb_internal_pb2: ConfigItem().key, ConfigItem().nested_key, ConfigItem().value_json
            wandb.proto.wandb_internal_pb2: SummaryItem().key, SummaryItem().nested_key, SummaryItem().value_json
            wandb.proto.wandb_internal_pb2: HistoryRecord().item
            wandb.proto.wandb_internal_pb2: HistoryItem().key, HistoryItem().nested_key, HistoryItem().value_json
            wandb.proto.wandb_internal_pb2: ArtifactRecord().name, ArtifactRecord().manifest
            wandb.proto.wandb_internal_pb2: ArtifactManifestEntry().path, ArtifactManifestEntry().local_path
            wandb.proto.wandb_internal_pb2: ArtifactManifestEntry().digest
        """,
    },
    "wandb-workspaces": {
        "study/wandb_workspace/workspace.py": """
            wandb_workspaces.workspaces: Workspace(entity="", project="p")._internal_name
            wandb_workspaces.workspaces: Workspace(entity="", project="p")._internal_id
            wandb_workspaces.workspaces: Workspace(entity="", project="p")._to_model
        """
    },
    "torch": {
        "trainables/models/precision.py": """
            torch: ops.mkldnn._reorder_linear_weight, ops.mkldnn._linear_pointwise
            torch: _foreach_copy_, _foreach_add_, nn.Linear(1, 1)._parameters["weight"]
        """,
        "trainables/models/attention.py": """
            torch.nn.attention.varlen: inspect.signature(varlen_attn).parameters["window_size"]
            trainables.models.attention: {True: 1}[has_flash_operation()]
        """,
    },
    "peft": {
        "trainables/models/dense_layers.py": """
            peft.tuners.lora: Linear.get_base_layer, Linear.get_delta_weight
            peft.tuners.lora.layer ~ self.lora_A[adapter_name] = nn.Linear, lora_B(lora_A(dropout(x))) * scaling
        """,
        "trainables/exchange/saved_models.py": """
            peft.utils: {"adapter_model.safetensors": 1}[SAFETENSORS_WEIGHTS_NAME]
        """,
    },
    "optuna": {
        "analysis/export/optuna.py": """
            optuna: storages.RDBStorage("sqlite://").engine, storages.RDBStorage("sqlite://").remove_session
            optuna: Study.set_metric_names
        """,
        "search_spaces/search_samplers.py": """
            optuna.samplers: inspect.signature(TPESampler).parameters["multivariate"]
            optuna.samplers: inspect.signature(TPESampler).parameters["group"]
            optuna.samplers: inspect.signature(TPESampler).parameters["constant_liar"]
            optuna.samplers: inspect.signature(GPSampler).parameters["deterministic_objective"]
        """,
    },
}
"""Library -> file that uses it -> a line for each use: `MODULE: EXPRESSION`, which is evaluated among the names of the
module, or `MODULE ~ TEXT, TEXT`, which are in its source."""


def find_missing(uses: dict[str, str]) -> Iterator[str]:
    """Yield what a library has no longer, with the file that uses it."""
    for user, lines in uses.items():
        for line in filter(None, map(str.strip, lines.splitlines())):
            try:
                if " ~ " in line:
                    module, _, texts = line.partition(" ~ ")
                    source = inspect.getsource(import_module(module))
                    if not all(text in source for text in texts.split(", ")):
                        raise NameError
                else:
                    module, _, expression = line.partition(": ")
                    eval(expression, {**vars(import_module(module)), "inspect": inspect})
            except (AttributeError, ImportError, KeyError, NameError, OSError, TypeError):
                yield f"{line}, which {user} relies on"


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(line) for found in lists for line in found]


@pytest.mark.parametrize("name", BOUNDED)
def test_a_library_with_private_names_in_use_has_an_upper_bound(name):
    asked = [requirement.specifier for requirement in requirements() if requirement.name == name]
    assert asked
    for specifier in asked:
        assert any(one.operator in ("<", "==", "~=") for one in specifier), f"{name}{specifier}"


def test_the_locked_versions_are_within_the_bounds():
    lines = [line for path in ROOT.glob("requirements*.lock") for line in path.read_text("utf-8").splitlines()[1:]]
    locked = {canonicalize_name(name): found for name, found in (line.split("==") for line in lines)}
    assert len(locked) == len(lines)  # each in one file
    asked = [(canonicalize_name(requirement.name), requirement.specifier) for requirement in requirements()]
    outside = [f"{name} {locked[name]}" for name, bound in asked if name in locked and not bound.contains(locked[name])]
    assert outside == []


def test_the_installed_packages_take_the_first_python_that_is_allowed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (first,) = [one.version for one in SpecifierSet(project["requires-python"]) if one.operator == ">="]
    files = (ROOT / "requirements.lock", ROOT / "requirements-test.lock")
    names = {canonicalize_name(line.split("==")[0]) for path in files for line in path.read_text("utf-8").splitlines()}
    installed = [found.metadata for found in distributions() if canonicalize_name(found.name) in names]
    assert installed
    asked = {found["Name"]: found.get("Requires-Python", "") for found in installed}
    assert {name: bound for name, bound in asked.items() if f"{first}.0" not in SpecifierSet(bound)} == {}


@pytest.mark.parametrize("library", USES)
def test_a_library_has_what_is_used_of_it(library):
    assert [*find_missing(USES[library])] == [], version(library)
