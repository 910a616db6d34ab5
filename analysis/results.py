"""Public imports for reading the results of a study: `read_records`, `read_server`, `per_query`, ..."""

from analysis.data.results import Results, per_query
from analysis.data.run import Run
from analysis.readers.results import read_records, read_server, read_wandb_files
from records.plan import Plan

__all__ = ["Plan", "Results", "Run", "per_query", "read_records", "read_server", "read_wandb_files"]
