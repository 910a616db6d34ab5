"""Old location of the functions that exported sweeps import: their files use `scheduled` from here."""

from study.wandb_sweeps.optuna_scheduler import make_scheduler_functions as scheduled

__all__ = ["scheduled"]
