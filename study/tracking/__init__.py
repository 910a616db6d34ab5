"""Weights & Biases: one W&B run a specification, under the same id, made from the records.

One process writes all of it, the scribe, a child of whoever drives the study: trials wait for nothing, and a run has
one writer. The record is the truth; what W&B lacks is made from it, in this or in a later start, or by `study.sync`.
"""

from study.tracking.client import WandbLogger
from study.tracking.settings import Tracking, TrackingMode

__all__ = ["Tracking", "TrackingMode", "WandbLogger"]
