"""Names under which runs log to Weights & Biases, as far as the dashboard shows them.

A test compares them with what runs really log. The names of the report's run are in `analysis.export.wandb_summary`.
"""

INSTANCES = "instances"
"""Horizontal axis of every curve."""
LOSS = "train/loss"
LEARNING_RATE = "train/learning_rate"
THROUGHPUT = "train/instances_per_second"

SECONDS = "seconds"
TRAINED = "instances_trained"
ERROR = "error"
"""Cause of a failed run."""

STUDY, ROLE, VARIANT, SEED, SWITCH = "study", "role", "variant", "seed", "switch"
"""Keys of a run's config. Hyperparameters have the same names as in the search."""

REPORT = "report"
"""Job type of the report's run."""


def get_current_value_key(name: str) -> str:
    """Return the key of a hyperparameter that a schedule changes during training.

    Example:
        >>> get_current_value_key("epsilon")
        'train/epsilon'
    """
    return f"train/{name}"


def get_dev_metric_key(metric: str) -> str:
    """Return the key of a metric on dev, both during training and at its end.

    Example:
        >>> get_dev_metric_key("R10@1")
        'dev/R10@1'
    """
    return f"dev/{metric}"
