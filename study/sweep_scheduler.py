"""The old place of `study.wandb_sweeps.optuna_scheduler`, which sweeps exported before name; to be removed."""

from study.wandb_sweeps.optuna_scheduler import scheduled

__all__ = ["scheduled"]
