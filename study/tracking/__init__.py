"""Weights & Biases: one W&B run for each specification, with the same id, made from the run records.

A background process of the driver does all W&B writes. So trials never wait for W&B, and each run has exactly one
writer. Run records are the source of truth: what is missing in W&B is created again from them, later in the same start,
in a later one, or by `python -m study.sync`. `wandb_run` does the writing; `writer` decides what is written, in the
`worker_process` to which the driver's `client` sends its requests.
"""

from study.tracking.client import WandbLogger
from study.tracking.tracking_settings import Tracking

__all__ = ["Tracking", "WandbLogger"]
