"""The names under which runs log to Weights & Biases, as far as the dashboard shows them; a test holds them against
what runs really log. What the report's run logs is named in `analysis.export.wandb_summary`."""

INSTANCES = "instances"
"""What every curve is drawn over."""
LOSS = "train/loss"
LEARNING_RATE = "train/learning_rate"
THROUGHPUT = "train/instances_per_second"

SECONDS = "seconds"
TRAINED = "instances_trained"
ERROR = "error"
"""The cause, of a run that failed."""

STUDY, ROLE, VARIANT, SEED, SWITCH = "study", "role", "variant", "seed", "switch"
"""Of a run's config. A hyperparameter has the name that it has in the search."""

REPORT = "report"
"""Job type of the report's run."""


def get_current_value_key(name: str) -> str:
    """A hyperparameter that a schedule moves, over the training."""
    return f"train/{name}"


def get_dev_metric_key(metric: str) -> str:
    """A metric on the development set, over the training and at its end."""
    return f"dev/{metric}"
