"""Old place of the scheduler of exported sweeps, whose files import `scheduled` from here."""

from study.wandb_sweeps.optuna_scheduler import make_scheduler_functions as scheduled

__all__ = ["scheduled"]
