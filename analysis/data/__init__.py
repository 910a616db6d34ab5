"""Contents of a finished study: plan, runs, scores, configurations, query attributes, search logs."""
