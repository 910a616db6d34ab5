"""The search spaces of studies, for each trainable, and the Optuna search over them, averaged over seeds."""
