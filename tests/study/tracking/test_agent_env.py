"""Variables that a sweep's agent sets for a command. Runs of the study must not see them."""

from study.tracking.agent_env import SweepContext, read_sweep_context, remove_sweep_variables

AGENTS = {
    "WANDB_SWEEP_ID": "sweep",
    "WANDB_RUN_ID": "run",
    "WANDB_SWEEP_PARAM_PATH": "/home/somebody/wandb/sweep-sweep/config-run.yaml",
    "WANDB_DIR": "/home/somebody",
    "WANDB_SERVICE": "3-1-unix-/tmp/socket",
}
KEPT = {"WANDB_API_KEY": "key", "WANDB_BASE_URL": "http://x", "WANDB_ENTITY": "team", "WANDB_PROJECT": "p", "PATH": "/"}


def test_the_sweeps_variables_go_and_the_others_stay():
    environment = AGENTS | KEPT
    assert remove_sweep_variables(environment) == KEPT
    assert environment == AGENTS | KEPT
    assert remove_sweep_variables(KEPT) == KEPT


def test_the_place_is_what_the_agent_says():
    assert read_sweep_context(AGENTS | KEPT) == SweepContext("sweep", "run", "p", "team", "/home/somebody")
    assert read_sweep_context({"WANDB_SWEEP_ID": "sweep", "WANDB_RUN_ID": "run"}) == SweepContext(
        "sweep", "run", None, None, None
    )


def test_without_an_agent_there_is_none():
    for environment in (
        {},
        KEPT,
        {"WANDB_RUN_ID": "run"},
        {"WANDB_SWEEP_ID": "sweep"},
        AGENTS | {"WANDB_SWEEP_ID": ""},
    ):
        assert read_sweep_context(environment) is None
