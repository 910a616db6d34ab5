"""What a finished study contains: its plan, runs, scores, configurations, query attributes and search logs."""
