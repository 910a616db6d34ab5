"""Files in the folder of a study: run records, the plan, the search log, and their remote copy."""
