"""The files of a study's folder: run records, the plan, the search log, and their remote copy."""
