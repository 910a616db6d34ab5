"""Statistics as functions of arrays: estimates, tests, corrections and power. Independent of studies."""
