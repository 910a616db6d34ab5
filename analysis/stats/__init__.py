"""Statistics as functions of arrays: estimates, tests, corrections, power. Knows nothing of studies."""
