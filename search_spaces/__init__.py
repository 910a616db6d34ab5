"""What a study may vary, for each trainable, and the Optuna search over it, averaged over seeds."""
