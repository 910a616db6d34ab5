"""The search spaces of studies, for each trainable, and the Optuna search over them, averaged over seeds.

`search` asks Optuna for configurations and reports their means; `study_type` lists the types of studies.
"""
