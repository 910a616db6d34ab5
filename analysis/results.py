"""Public imports for reading the results of a study: `read_records`, `read_server`, `per_query`, ..."""

from analysis.data.recorded_run import Run
from analysis.data.study_results import Results, per_query
from analysis.readers.study_reader import read_records, read_server, read_wandb_files
from records.plan import Plan

__all__ = ["Plan", "Results", "Run", "per_query", "read_records", "read_server", "read_wandb_files"]
