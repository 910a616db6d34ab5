"""Search spaces of the trainables, and the Optuna search over them, averaged over seeds."""
